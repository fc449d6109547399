"""Lessons as slides: `jupyter nbconvert --config docs/slides.py --output-dir slides LESSON`."""

from pathlib import Path

import zmq

c = get_config()  # noqa: F821

c.NbConvertApp.export_format = "slides"
c.SlidesExporter.reveal_scroll = True
c.SlidesExporter.extra_template_basedirs = [str(Path(__file__).parent)]
c.SlidesExporter.template_name = "slides"
c.TagRemovePreprocessor.enabled = True
c.TagRemovePreprocessor.remove_cell_tags = {"hide-cell", "remove-cell"}

# Else the kernel warns that others on the machine could listen to it.
c.KernelManager.transport_encryption = "auto" if zmq.has("curve") else "disabled"

# What slides load, where `npm install --prefix slides` has put it beside them: no network then.
if Path("slides/node_modules").is_dir():
    c.SlidesExporter.reveal_theme = "white"  # others have their fonts from elsewhere
    c.SlidesExporter.reveal_url_prefix = "node_modules/reveal.js"
    c.SlidesExporter.require_js_url = "node_modules/requirejs/require.js"
    c.SlidesExporter.jquery_url = "node_modules/jquery/dist/jquery.min.js"
    c.SlidesExporter.mathjax_url = "node_modules/mathjax/MathJax.js?config=TeX-AMS_CHTML-full,Safe"
