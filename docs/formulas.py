"""Formulas as MathML, written when the site is built: no script, no fonts, no network."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator


def mathml(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Append a formula, inline or a paragraph of its own; warn of TeX that has no MathML."""
    tex = node.astext()
    try:
        translator.body.append(tex2mathml(tex, as_block=isinstance(node, nodes.math_block)))
    except MathError as error:
        logging.getLogger(__name__).warning("%s: %s", tex, error, location=node)
    raise nodes.SkipNode


def setup(sphinx: Sphinx) -> dict[str, bool]:
    """Make it the way in which formulas are shown."""
    sphinx.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
