"""The file: safe to open, small, complete, readable for everyone."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import pytest
from report_cases import HOSTILE, hostile_mdp, simulator_run

from tailrank import report, solve
from tailrank.report import document
from tailrank.report.document import as_json, bundle, content_policy, fitting, page
from tailrank.report.sources import of_runs


class Parts(HTMLParser):
    """Everything of a page that matters for safety, as a browser would cut it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.inside = [], {}, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = f"{tag} {dict(attributes).get('type', '')}".strip()

    def handle_data(self, data):
        if self.inside in ("script", "style", "script application/json"):
            self.texts[self.inside] = self.texts.get(self.inside, "") + data

    def handle_endtag(self, tag):
        self.inside = None


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    mdp, path = hostile_mdp(), tmp_path_factory.mktemp("h") / "r.html"
    report.write(solve(mdp, tau=0.2), path, mdp=mdp, name=HOSTILE)
    return path.read_text()


def test_the_policy_names_the_hashes_of_the_script_and_the_style(hostile):
    parts = Parts(hostile)
    rules = next(a["content"] for tag, a in parts.tags if a.get("http-equiv") == "Content-Security-Policy")
    for name in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(parts.texts[name].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in rules
    assert "unsafe" not in rules
    assert rules.startswith("default-src 'none'")
    assert "connect-src 'none'" in rules
    assert "connect-src 'self'" in content_policy("", "", live=True)


def test_no_name_becomes_a_tag(hostile):
    parts = Parts(hostile)
    assert sum(tag == "script" for tag, _ in parts.tags) == 2
    assert not [tag for tag, _ in parts.tags if tag in ("img", "iframe", "link", "object")]
    assert not [a for _, a in parts.tags if any(name.startswith("on") or name in ("src", "style") for name in a)]
    data = parts.texts["script application/json"]
    assert not re.search("[<>&\u2028\u2029]", data)
    found = json.loads(data)
    assert found["title"] == HOSTILE
    assert found["policies"][0]["labels"]["0"] == HOSTILE[:60]
    assert html.unescape(re.search("<title>(.*?)</title>", hostile, re.S)[1]) == f"{HOSTILE}: risk report"


def test_nothing_points_outside(hostile):
    addresses = set(re.findall(r"https?://[\w./]+", hostile))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "@import" not in hostile
    assert "url(" not in hostile


def test_one_script_from_all_modules():
    script = bundle()
    assets = document.resources.files("tailrank.report").joinpath("page").iterdir()
    names = {path.name.removesuffix(".js") for path in assets if path.name.endswith(".js")}
    assert set(re.findall(r"^modules\.(\w+) = ", script, re.M)) == names
    assert not re.search(r"^(import|export) ", script, re.M)
    assert "</" not in script
    for name, other in re.findall(r"^modules\.(\w+) = |= modules\.(\w+);", script, re.M):
        if other:
            assert f"modules.{other} = " in script[: script.index(f"= modules.{other};")], name
    assert "innerHTML" not in script
    assert "eval(" not in script


def test_modules_are_short_and_say_what_they_are_for():
    for path in document.resources.files("tailrank.report").joinpath("page").iterdir():
        lines = path.read_text().splitlines()
        assert max(map(len, lines)) <= 120, path.name
        if path.name.endswith(".js"):
            assert len(lines) <= 200, path.name
            assert lines[0].startswith("// ")


def test_json_has_no_infinite_numbers():
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"x": float("inf")})


def test_many_runs_still_fit(runs, monkeypatch, tmp_path):
    subject = of_runs(runs)
    whole = fitting(subject)
    assert all(part["table"] for part in whole["policies"])
    size = len(as_json(whole).encode())
    monkeypatch.setattr(document, "LIMIT", size + len(bundle()) + 40_000 - 1000)
    less = fitting(subject)
    assert less["policies"][0]["table"]
    assert less["policies"][2]["table"] is None
    assert "write a report of this run alone" in less["policies"][2]["absent"]["table"]
    monkeypatch.setattr(document, "LIMIT", 50_000)
    assert fitting(subject)["problems"][0]["best"] == []
    monkeypatch.undo()
    assert fitting(subject)["problems"][0]["best"]


def test_all_or_nothing(tmp_path):
    folder = simulator_run(tmp_path / "s")
    (tmp_path / "r.html").write_text("before")
    with pytest.raises(OSError, match="no-such"):
        report.write(folder, tmp_path / "no-such" / "r.html")
    size = report.write([folder], tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size == size
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def luminance(colour):
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_read_in_light_and_dark():
    css = document.asset("style.css")
    blocks = re.findall(r"(:root[^{]*)\{([^}]*)\}", css)
    themes = [dict(re.findall(r"--([\w-]+): (#\w{6})", body)) for _, body in blocks]
    assert len(themes) == 3
    assert themes[1] == themes[2]  # asked for by the reader, or by the system
    for theme in themes:
        for name in ("ink", "soft", "tail-ink", "mine", "best", "neutral"):
            assert contrast(theme[name], theme["bg"]) >= 4.5, name
            if name in ("ink", "soft"):
                assert contrast(theme[name], theme["panel"]) >= 4.5, name
        assert contrast(theme["ink"], theme["warn"]) >= 4.5
        assert contrast(theme["tail"], theme["bg"]) >= 3
        assert contrast(theme["accent"], theme["bg"]) >= 3
    white = set(re.findall(r"text\.in\.(\w+)", re.search(r"(svg text\.in[^{]*)\{\s*fill: #ffffff", css)[1]))
    fills = dict(re.findall(r"svg rect\.(\w+), \.swatch\.\w+ \{ fill: (#\w{6})", css))
    assert len(fills) == 24
    for name, fill in fills.items():
        assert contrast(fill, "#ffffff" if name in white else "#111111") >= 4.5, name


def test_page_is_complete_without_network_or_state(subjects):
    text = page(subjects["lock"].data())
    for needed in ('lang="en"', '<meta name="viewport"', "<noscript>", 'class="skip"', 'type="range"'):
        assert needed in text
