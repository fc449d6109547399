"""Results of variables in words."""
