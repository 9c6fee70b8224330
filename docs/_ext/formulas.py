"""Formulas as plain HTML, written by docutils itself: no script, no network, no LaTeX, no special font.

(MathML needs a font for mathematics, which many systems do not have: subscripts then stand on the line.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import math2html
from docutils.writers import html5_polyglot
from sphinx.application import Sphinx

STYLE = Path(html5_polyglot.__file__).parent / "math.css"


def inline(translator: Any, node: nodes.math) -> None:
    """A formula in a line."""
    math2html.DocumentParameters.displaymode = False
    translator.body.append(f'<span class="formula">{math2html.math2html(node.astext())}</span>')
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    """A formula by itself."""
    math2html.DocumentParameters.displaymode = True
    translator.body.append(f'<div class="formula">{math2html.math2html(node.astext())}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer `html` and docutils' style for it."""
    app.add_html_math_renderer("html", (inline, None), (block, None))
    app.connect("builder-inited", lambda app: app.config.html_static_path.append(str(STYLE)))
    app.add_css_file(STYLE.name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
