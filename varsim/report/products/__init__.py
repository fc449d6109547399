"""What each product tells: a module each, from a result to a report."""
