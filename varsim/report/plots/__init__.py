"""Figures of a result; the only place that knows matplotlib."""


def prepare() -> None:
    """Import matplotlib for a command: without the tables of properties in its docstrings.

    To write them takes more than half of the import, and nobody asks a command for them.
    """
    from matplotlib import artist

    artist.kwdoc = lambda artist: ""
    from matplotlib import figure  # noqa: F401  (here each class would get one)
