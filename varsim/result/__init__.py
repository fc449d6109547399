"""What came out: metrics with their intervals, tables, and sentences to read out."""
