"""Calibration: measured files, fitted and written as parts of a scenario."""
