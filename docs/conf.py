"""How the documentation is built: Sphinx, MyST and furo, nothing from elsewhere when it is read."""

import logging
import sys
from pathlib import Path

import zmq
from jupyter_client.manager import KernelManager

from varsim.version import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "varsim"
author = copyright = "The varsim maintainers"
release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "explorable", "formulas", "generated", "looks"]
extensions += ["sphinx.ext.napoleon"]
default_role = "code"  # of docstrings: `jobs` is code
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

# The lessons are executed, and again only when their code has changed.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
if hasattr(KernelManager, "transport_encryption") and zmq.has("curve"):
    KernelManager.transport_encryption.default_value = "auto"  # else every kernel warns of it
logging.getLogger("traitlets").setLevel(logging.WARNING)  # that a lesson is executed is no news

html_theme = "furo"
html_static_path = ["_static"]
html_logo = html_favicon = "_static/logo.svg"
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_title = "varsim"
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it would load every page that is found, which no file may
