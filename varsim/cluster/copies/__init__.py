"""Copies of a model on the workers: mirrored, averaged, led by an outer step, elastic."""
