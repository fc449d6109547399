"""Figures of a result; the only place that knows matplotlib."""


def prepare() -> None:
    """Import matplotlib for a command: without signatures and tables of properties in its docs.

    To write them takes more than half of the import, and nobody asks a command for them.
    """
    from matplotlib import artist

    artist.kwdoc = lambda artist: ""
    unsigned = classmethod(lambda _: None)
    artist.Artist._update_set_signature_and_docstring = unsigned  # type: ignore[attr-defined]
    from matplotlib import figure  # noqa: F401  (here each class would get one)
