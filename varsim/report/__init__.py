"""Results to people and files: words, pages, plots, text for other programs."""
