"""The plots of a result of variables; each is data first, then a figure."""
