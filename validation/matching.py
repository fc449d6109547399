"""Which lines of a validation are meant by a pattern."""

from fnmatch import fnmatchcase


def matches(only: str | None, *names: str) -> bool:
    """Whether one of the names fits: as a file name would, or, without wildcards, contains it."""
    if only is None:
        return True
    pattern = only if any(letter in only for letter in "*?[") else f"*{only}*"
    return any(fnmatchcase(name, pattern) for name in names)
