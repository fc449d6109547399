"""One experiment as frozen data, read from a file, text or dict; every mistake with its place."""
