"""Pictures of charts, for files and notebooks."""
