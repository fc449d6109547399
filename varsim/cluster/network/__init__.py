"""Links, how messages share them, and the networks that are made of them."""
