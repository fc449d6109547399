"""Closed forms: every formula that describes a system varsim simulates, against its simulation."""
