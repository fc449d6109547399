"""Networks of machines and of other simulators, added to varsim as a user would."""
