"""Many scenarios from one: points of a space, run until they are known well enough, and kept."""
