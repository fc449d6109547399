"""What can be read in a figure, for the tests of plots."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text


def texts_of(figure: Figure, axes: Sequence[Axes]) -> list[Text]:
    """All that can be read in a figure."""
    found = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for each in axes:
        found += [*each.texts, each._left_title, each._right_title, each.yaxis.label]
        low, high = sorted(each.get_ylim())
        found += [text for text in each.get_yticklabels() if low <= text.get_position()[1] <= high]
    low, high = axes[-1].get_xlim()
    ticks = axes[-1].get_xticklabels()
    found += [text for text in ticks if low <= text.get_position()[0] <= high]
    return [text for text in (*found, axes[-1].xaxis.label) if text.get_text()]


def assert_no_text_over_other_text(figure: Figure, axes: Sequence[Axes]) -> None:
    """Every text is inside the figure and apart from all others."""
    figure.draw_without_rendering()  # puts the texts of a legend where they are seen
    texts = texts_of(figure, axes)
    assert len(texts) > 10
    boxes = [text.get_window_extent().padded(-1) for text in texts]
    width, height = figure.bbox.width, figure.bbox.height
    for index, box in enumerate(boxes):
        assert box.x0 > 0, texts[index]
        assert box.y0 > 0, texts[index]
        assert box.x1 < width, texts[index]
        assert box.y1 < height, texts[index]
        for other, beside in enumerate(boxes[:index]):
            assert not box.overlaps(beside), (texts[index], texts[other])
