"""What a scenario says of its machines, servers and failures; nothing here runs."""
