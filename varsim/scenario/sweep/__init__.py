"""Sweeps: which points of which quantities, read and checked."""
