"""What a run leaves on disk, written all at once and read back."""
