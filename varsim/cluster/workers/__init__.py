"""Workers, the job they are in, and how gradients leave them."""
