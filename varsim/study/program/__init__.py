"""The result of a scenario of variables as tables, as sentences and as text for programs."""
