"""Results in words: sentences, tables of text, and what a reader must know besides."""
