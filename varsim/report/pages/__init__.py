"""The pages: one HTML file each that needs nothing else."""
