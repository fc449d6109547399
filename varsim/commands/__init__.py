"""What the commands of varsim do, and how they end."""
