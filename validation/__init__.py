"""What varsim is held against: closed forms, other simulators, measurements, identities."""
