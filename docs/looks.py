"""How pages look: what is printed is shown so that sentences wrap, and tables keep their lines."""

import re
from itertools import groupby

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_COLUMNS = re.compile(r"─|\S {3,}\S")


class PrintedText(SphinxTransform):
    """Blocks of printed text, cut into sentences and tables."""

    default_priority = 400

    def apply(self) -> None:
        """Put a block for each in its place."""
        for block in [*self.document.findall(nodes.literal_block)]:
            if block.get("language") != "text":
                continue
            paragraphs = block.astext().split("\n\n")
            made = []
            for columns, some in groupby(paragraphs, lambda one: bool(_COLUMNS.search(one))):
                part = block.copy()
                text = "\n\n".join(some)
                # Where a line was wrapped for a terminal, the next is indented. (A block whose
                # source is another text Sphinx takes for a parsed one.)
                part.rawsource = text if columns else re.sub(r"\n +", " ", text)
                part += nodes.Text(part.rawsource)
                part["classes"] += [] if columns else ["sentences"]
                made.append(part)
            for part in made[:-1]:
                part["classes"].append("above")
            block.replace_self(made)


def setup(sphinx: Sphinx) -> dict[str, bool]:
    """Have it done on every page, and add the style and what frames ask for."""
    sphinx.add_transform(PrintedText)
    sphinx.add_css_file("site.css")
    sphinx.add_js_file("theme.js")
    return {"parallel_read_safe": True}
