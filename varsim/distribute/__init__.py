"""Distributed values as TensorFlow's strategies handle them: contexts, containers, strategies."""
