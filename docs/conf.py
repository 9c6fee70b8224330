"""The documentation site: `make docs` builds it into docs/_build/html, and every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

import tailrank

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from sources import linkcode_resolve  # noqa: F401 (sphinx.ext.linkcode looks for it here)

project = "tailrank"
author = "the tailrank authors"
copyright = author
version = release = tailrank.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx_copybutton",
    "docstrings",
    "formulas",
    "sources",
]
fragments = [path.name for path in Path(__file__).parent.glob("*_results.md") if path.read_text()[:2] != "# "]
exclude_patterns = ["_build", *fragments]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
default_role = "literal"
nitpicky = False

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
add_module_names = False

html_theme = "furo"
html_title = "tailrank"
html_static_path = ["_static"]
html_css_files = ["tailrank.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_math_renderer = "html"
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"
