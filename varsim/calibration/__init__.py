"""Measurements of a cluster made into parts of a scenario: files read, fitted, and told of."""
