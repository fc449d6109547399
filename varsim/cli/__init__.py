"""The command line: what is parsed, then what is done with it."""
