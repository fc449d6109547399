"""Many scenarios from one: run until they are known well enough, and kept."""
