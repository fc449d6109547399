"""How the documentation is built: Sphinx, MyST and furo, nothing from elsewhere when it is read."""

from varsim.version import __version__

project = "varsim"
author = "The varsim maintainers"
release = __version__

extensions = ["myst_nb"]
myst_heading_anchors = 3
nb_execution_mode = "off"

html_theme = "furo"
html_title = "varsim"
html_show_sourcelink = False
html_copy_source = False
