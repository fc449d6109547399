"""Programs of reads and writes of distributed variables: what is described, and how it runs."""
