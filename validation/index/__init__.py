"""The whole validation in one report: all sections, summed up, line by line."""
