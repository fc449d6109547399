"""Failures in a run and beyond it: deaths, checkpoints, lives and what they cost."""
