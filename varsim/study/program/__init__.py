"""What a result of a scenario of variables consists of: tables, metrics, crossovers."""
