"""Identities: what must be equal between runs of one scenario, whatever it describes."""
