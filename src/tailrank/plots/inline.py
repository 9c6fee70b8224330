"""A figure as SVG inside an HTML page that allows no styles but its own.

Matplotlib writes `style` attributes and a style element; both become plain attributes here. Names inside (glyphs,
clips) get a prefix, so that several pictures can stand on one page. Letters are outlines: no text of a run is in it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from tailrank.plots import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
TAGS = {"svg", "g", "path", "rect", "use", "defs", "clipPath"}
SCALE = 1.5
"""Pixels on a screen for a point on paper."""


def inline(figure: Figure, name: str, label: str) -> str:
    """The element <svg> of a figure. name: prefix of the names inside. label: what it shows, for who cannot see it."""
    file = io.StringIO()
    with style.look():
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(file.getvalue())  # noqa: S314 (written by matplotlib a moment ago)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    _clean(root, name)
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "width": f"{SCALE * width:.0f}",
        "height": f"{SCALE * height:.0f}",
        "role": "img",
        "aria-label": label,
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: ElementTree.Element, name: str) -> None:
    """Make the element and all in it plain."""
    element.tag = element.tag.removeprefix(SVG)
    element.text = element.tail = None
    found = element.attrib.pop("style", "")
    for part in filter(None, found.split(";")):
        key, _, value = part.partition(":")
        element.set(key.strip(), value.strip())
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.attrib['id']}")
    if LINK in element.attrib:
        element.set("href", f"#{name}-{element.attrib.pop(LINK).removeprefix('#')}")
    if "clip-path" in element.attrib:
        element.set("clip-path", element.attrib["clip-path"].replace("#", f"#{name}-"))
    for child in list(element):
        if child.tag.removeprefix(SVG) in TAGS:
            _clean(child, name)
        else:
            element.remove(child)
