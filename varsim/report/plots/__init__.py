"""Figures of a result; the only place that knows matplotlib."""
