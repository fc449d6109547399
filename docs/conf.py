"""How the documentation is built: Sphinx, MyST and furo, nothing from elsewhere when it is read."""

import sys
from pathlib import Path

from varsim.version import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "varsim"
author = "The varsim maintainers"
release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "generated"]
myst_heading_anchors = 3
nb_execution_mode = "off"

html_theme = "furo"
html_title = "varsim"
html_show_sourcelink = False
html_copy_source = False
