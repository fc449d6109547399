"""Recorded runs of real clusters: what they tell of overheads, and how well they are predicted."""
