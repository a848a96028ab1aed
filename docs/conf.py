"""How Sphinx builds the site: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402  # beside this file

import vecenv  # noqa: E402

project = "vecenv"
author = "the authors of vecenv"
release = vecenv.__version__
html_title = f"vecenv {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
suppress_warnings = ["ref.python"]  # names of attributes that several classes have

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_mock_imports = generate.ABSENT
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

linkcheck_anchors = False  # many sites make theirs by JavaScript
linkcheck_retries = 3
linkcheck_timeout = 20

highlight_language = "text"  # of blocks that name no language: trees, pictures, output

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "monokai"


def setup(app) -> None:  # Sphinx's application
    """Write the generated pages before Sphinx reads the others; docstrings are Markdown-like."""
    generate.write(HERE / "reference" / "generated")
    app.connect("autodoc-process-docstring", generate.to_restructured_text, priority=100)
    app.connect("source-read", generate.of_repository)
    app.connect("source-read", generate.add_phrases)
