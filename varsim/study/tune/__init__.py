"""Each strategy at its best learning rate: found by a search, measured with fresh seeds."""
