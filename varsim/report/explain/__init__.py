"""A run of a scenario of variables, told step by step: rows of data, then words, then a table."""
