"""A figure that is laid out, as PNG and as SVG: its text is measured once for both.

matplotlib would shape each text anew for the layout and for either file, as hinting makes it
another width at each resolution. Without hinting one width in points is true for all.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Final

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from PIL import Image

_POINTS: Final = 72  # per inch
_DPI: Final = 150  # of a PNG
_COMPRESSED: Final = 3  # of 9: a PNG is a seventh larger than at 6, and soon written


class _Pixels(RendererAgg):  # type: ignore[misc]  # matplotlib is not typed
    """What draws in pixels."""

    def get_text_width_height_descent(
        self, s: str, prop: FontProperties, ismath: bool
    ) -> tuple[float, float, float]:
        """In pixels."""
        scale = self.dpi / _POINTS
        width, height, descent = _size(s, prop.copy(), ismath)
        return scale * width, scale * height, scale * descent


class _Vectors(RendererSVG):  # type: ignore[misc]
    """What draws as SVG, whose pixels are points."""

    def get_text_width_height_descent(
        self, s: str, prop: FontProperties, ismath: bool
    ) -> tuple[float, float, float]:
        """In points."""
        return _size(s, prop.copy(), ismath)


@cache
def ruler(dpi: float) -> RendererAgg:
    """What figures are measured with."""
    return _Pixels(1, 1, dpi)


def png(figure: Figure) -> bytes:
    """The figure as a PNG, the same bytes every time; its ground is opaque, so no alpha is kept."""
    with _at(figure, _DPI):
        renderer = _Pixels(*figure.bbox.size, _DPI)
        figure.draw(renderer)
    file = io.BytesIO()
    opaque = Image.fromarray(np.asarray(renderer.buffer_rgba())).convert("RGB")
    opaque.save(file, "png", dpi=(_DPI, _DPI), compress_level=_COMPRESSED)
    return file.getvalue()


def svg(figure: Figure) -> str:
    """The figure as an SVG, the same text every time."""
    text = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with _at(figure, _POINTS):
        renderer = _Vectors(*figure.bbox.size, text, metadata=nothing)
        figure.draw(renderer)
        renderer.finalize()
    return text.getvalue()


@contextmanager
def _at(figure: Figure, dpi: float) -> Iterator[None]:
    """The figure has this resolution meanwhile."""
    usual, figure.dpi = figure.dpi, dpi
    try:
        yield
    finally:
        figure.dpi = usual


@lru_cache(4096)
def _size(text: str, font: FontProperties, mathtext: bool) -> tuple[float, float, float]:
    """Width, height and descent in points."""
    found: tuple[float, float, float] = text_to_path.get_text_width_height_descent(
        text, font, mathtext
    )
    return found
