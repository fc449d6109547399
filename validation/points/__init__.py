"""Closed forms: every formula that describes a system varsim simulates, against its simulation."""

from validation.points.findings import findings
from validation.points.point import PointFileError, bundled_points, read_points

__all__ = ["PointFileError", "bundled_points", "findings", "read_points"]
