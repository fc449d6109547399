"""The picture of a plan."""
