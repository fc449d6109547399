"""Where and when: devices, links, servers and collectives in virtual time. The only simpy."""
