"""The server: its own pages and nobody else's, small requests only, news while a run goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tailrank.report.live.server import MOST_BODY, Server
from tailrank.report.live.site import Site
from tailrank.report.sources import of_sources
from tailrank.runs.folder import lock_folder


@contextmanager
def serving(site):
    """A server of the site on any port, ended whatever happens."""
    with Server(site, 0) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server(subjects):
    with serving(Site(lambda: subjects["policy"])) as running:
        yield running


def talk(server, data, *, half=False):
    """Status, headers and body of the answer to raw bytes; None where the connection is cut."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as line:
        try:
            line.sendall(data)
            if half:
                line.shutdown(socket.SHUT_WR)
            answer = b""
            while chunk := line.recv(65536):
                answer += chunk
        except ConnectionError:
            answer = b""
    if not answer:
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(text.split(": ", 1) for text in lines), body


def request(server, method="GET", path="/data", body=b"", host=None, **headers):
    headers = {"Host": f"127.0.0.1:{server.server_port}" if host is None else host} | {
        name.replace("_", "-"): value for name, value in headers.items() if value is not None
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items() if value != "")]
    return talk(server, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def post(server, body, **headers):
    own = f"http://127.0.0.1:{server.server_port}"
    given = {"Origin": own, "Content_Type": "application/json", "Content_Length": str(len(body))} | headers
    return request(server, "POST", "/solve", body, **given)


def test_it_listens_on_this_computer_only(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert request(server)[0] == 200
    assert request(server, host=f"localhost:{server.server_port}")[0] == 200
    assert request(server, Origin=f"http://localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "", "a:{port}", "127.0.0.1:{port}.evil.example"]
)
def test_another_host_is_refused(server, host):
    for path in ("/", "/data", "/solve"):
        assert request(server, path=path, host=host.format(port=server.server_port))[0] == 403


def test_two_hosts_are_refused(server):
    name = f"Host: 127.0.0.1:{server.server_port}\r\n".encode()
    assert talk(server, b"GET /data HTTP/1.1\r\n" + name + b"Host: evil.example\r\n\r\n")[0] == 403
    assert talk(server, b"GET /data HTTP/1.1\r\n" + name + b"\r\n")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_another_origin_is_refused(server, origin):
    origin = origin.format(port=server.server_port)
    assert request(server, Origin=origin)[0] == 403
    assert post(server, b'{"tau": 0.5}', Origin=origin)[0] == 403


def test_other_sites_are_refused(server):
    assert request(server, Sec_Fetch_Site="cross-site")[0] == 403
    assert request(server, Sec_Fetch_Site="same-site")[0] == 403
    assert request(server, Sec_Fetch_Site="none")[0] == 200
    assert post(server, b'{"tau": 0.5}', Origin=None)[0] == 403


PATHS = (
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/data/../../x",
    "/data?x=1",
    "/data/",
    "data",
    "/rows.jsonl",
    "/plan.safetensors",
    "http://evil.example/",
    "*",
    "/\\..\\x",
    "/data%00",
    "/data;x",
    "/DATA",
)
BODIES = (
    b"",
    b"{",
    b"[]",
    b"{}",
    b'{"tau": "0.5"}',
    b'{"tau": 0}',
    b'{"tau": 2}',
    b'{"tau": NaN}',
    b'{"tau": 1, "x": 1}',
    b"[" * 1000,
    b'{"tau": null}',
    b'{"tau": 1e400}',
    b"\xff",
)


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_a_file(server, path):
    status, _, body = request(server, path=path)
    assert status == 404
    assert json.loads(body) == {"error": "there is nothing here"}


def test_methods(server):
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "TRACE", "CONNECT"):
        assert request(server, method)[0] == 405
    assert request(server, "POST", "/data")[0] == 405
    assert request(server, "GET", "/solve")[0] == 405
    assert request(server, "BREW")[0] == 501


def test_large_requests_are_refused(server):
    assert request(server, path="/" + "a" * 70_000)[0] == 414
    assert request(server, X="a" * 70_000)[0] == 431
    assert request(server, X="a" * 40_000)[0] == 431
    assert request(server, **{f"X{i}": "a" for i in range(200)})[0] == 431
    assert request(server, **{f"X{i}": "a" * 1000 for i in range(50)})[0] == 431
    assert post(server, b"", Content_Length=str(MOST_BODY + 1))[0] == 413
    assert post(server, b"", Content_Length="9" * 30)[0] == 413
    assert post(server, b"", Content_Length="-1")[0] == 400
    assert post(server, b"", Content_Length="1e3")[0] == 400
    assert request(server, Content_Length="2000")[0] == 413
    assert post(server, b"5\r\n", Transfer_Encoding="chunked")[0] == 411


@pytest.mark.parametrize("body", BODIES)
def test_bad_questions(server, body):
    status, _, answer = post(server, body)
    assert status == 400
    assert "\n" not in json.loads(answer)["error"]


def test_a_question_needs_its_type(server):
    assert post(server, b'{"tau": 0.5}', Content_Type="text/plain")[0] == 415
    assert post(server, b'{"tau": 0.5}', Content_Type=None)[0] == 415


def test_solving_again(server, subjects):
    status, _, body = post(server, b'{"tau": 0.25}')
    assert status == 200
    data = json.loads(body)
    first, *points = [part["name"] for part in data["policies"]]
    assert first == "best at tau = 0.25"
    points.remove("a.policy")
    assert points
    assert all(name.startswith("CVaR ") for name in points)  # of the efficient frontier
    assert data["tau"] == 0.25
    # Nothing has changed for others.
    assert json.loads(request(server)[2])["policies"][0]["name"] == "a.policy"


def test_one_solution_at_a_time(subjects):
    site = Site(lambda: subjects["policy"])
    with site._solving:
        assert site.solve(0.5) is None
    assert site.solve(0.5) is not None


def test_answers_are_closed_to_others(server):
    status, headers, body = request(server, path="/")
    assert status == 200
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers
    assert b"connect-src &#x27;self&#x27;" in body
    status, headers, _ = request(server)
    assert request(server, If_None_Match=headers["ETag"])[0] == 304
    assert request(server, If_None_Match='"other"')[0] == 200


def test_silence_and_rubbish_do_not_stop_it(server, capfd):
    quiet = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(4)]
    assert talk(server, b"\x16\x03\x01\x00\x00\r\n\r\n", half=True)[0] in (400, 501)
    talk(server, b"\r\n", half=True)
    talk(server, b"GET /data HTT", half=True)
    assert request(server)[0] == 200
    for line in quiet:
        line.close()
    time.sleep(0.1)
    assert capfd.readouterr().err == ""


@pytest.fixture
def growing(runs, tmp_path):
    """A copy of a run that has only its first rows yet."""
    folder = tmp_path / "grows"
    shutil.copytree(runs[0], folder)
    lines = (folder / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "rows.jsonl").write_bytes(b"".join(lines[:4]))
    (folder / "manifest.json").write_text('{"status": "running"}')
    with lock_folder(folder):
        yield folder, lines


def test_news_before_the_first_visit(growing):
    folder, lines = growing
    site = Site(lambda: of_sources([str(folder)], lambda _: None, tau=None), [folder])
    (folder / "rows.jsonl").write_bytes(b"".join(lines))
    (folder / "manifest.json").write_text('{"status": "finished"}')
    shown = json.loads(site.data()[0])
    assert shown["learning"]["groups"][0]["iterations"] == [len(lines)]
    assert not shown["live"]["running"]


def test_files_of_the_same_size_and_time_are_told_apart(growing):
    folder, _ = growing
    site = Site(lambda: of_sources([str(folder)], lambda _: None, tau=None), [folder])
    first = site.data()[0]
    before = (folder / "rows.jsonl").stat()
    (folder / "new").write_bytes((folder / "rows.jsonl").read_bytes().replace(b'"episodes": 4', b'"episodes": 5'))
    (folder / "new").rename(folder / "rows.jsonl")
    os.utime(folder / "rows.jsonl", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (folder / "rows.jsonl").stat().st_size == before.st_size
    assert site.data()[0] != first


def test_a_run_that_was_killed_does_not_go_on(runs, tmp_path):
    folder = tmp_path / "killed"
    shutil.copytree(runs[0], folder)
    (folder / "manifest.json").write_text('{"status": "running"}')
    with lock_folder(folder):
        site = Site(lambda: of_sources([str(folder)], lambda _: None, tau=None), [folder])
        assert json.loads(site.data()[0])["live"]["running"]
    shown = json.loads(site.data()[0])
    assert not shown["live"]["running"]
    assert "The run is not finished (stopped)." in shown["warnings"]


def test_news_of_a_run(growing):
    folder, lines = growing
    site = Site(lambda: of_sources([str(folder)], lambda _: None, tau=None), [folder])
    first, mark = site.data()
    assert site.data() == (first, mark)
    before = json.loads(first)
    assert before["learning"]["groups"][0]["iterations"] == [4]
    assert before["live"] == {"poll": True, "solve": True, "running": True}
    with (folder / "rows.jsonl").open("ab") as file:
        file.write(b"".join(lines[4:7]) + lines[7][:9])
    second, other = site.data()
    after = json.loads(second)
    assert other != mark
    assert after["learning"]["groups"][0]["iterations"] == [7]
    assert after["mark"] == before["mark"]
    (folder / "plan.safetensors").unlink()
    third = json.loads(site.data()[0])
    assert third["mark"] != before["mark"]
    assert third["policies"][0]["name"].endswith("the plan of iteration 12")


def test_a_damaged_file_is_an_answer_not_an_end(growing):
    folder, _ = growing
    site = Site(lambda: of_sources([str(folder)], lambda _: None, tau=None), [folder])
    with serving(site) as running:
        assert request(running)[0] == 200
        (folder / "rows.jsonl").write_text("{\n")
        status, _, body = request(running)
        assert status == 503
        assert "line 1 is damaged" in json.loads(body)["error"]
        (folder / "rows.jsonl").write_text("")
        assert request(running)[0] == 200


def test_live_in_the_browser(growing, visit):
    folder, lines = growing
    site = Site(lambda: of_sources([str(folder)], lambda _: None, tau=None), [folder])
    with serving(site) as running:
        page = visit(f"http://127.0.0.1:{running.server_port}/")
        page.locator("#learning summary").first.click()
        expect(page.locator("#learning tbody").first.locator("tr")).to_have_count(4)
        expect(page.locator("#live-text")).to_have_text("The run goes on; this page follows it.")
        page.locator("#tau").focus()
        page.keyboard.press("ArrowRight")
        (folder / "rows.jsonl").write_bytes(b"".join(lines[:9]))
        expect(page.locator("#learning tbody").first.locator("tr")).to_have_count(9)
        # What the reader has chosen stays: the level, and where the keyboard is.
        assert page.evaluate("document.activeElement.id") == "tau"
        assert "10.5%" in page.locator("#lead").inner_text()
        page.get_by_role("button", name="Solve again").click()
        expect(page.locator("#live-text")).to_have_text("Solved at tau = 0.105.")
        expect(page.locator("#policy")).to_be_visible()
        best = float(page.locator("[data-name=best-cvar]").get_attribute("data-exact"))
        mine = float(page.locator("[data-name=mine-cvar]").get_attribute("data-exact"))
        assert mine == pytest.approx(best, abs=1e-9)
        assert {address.rsplit("/", 1)[1] for address in page.requests} == {"", "data", "solve"}
        assert page.errors == []


def test_the_command_ends_with_ctrl_c(runs):
    command = [sys.executable, "-c", "from tailrank.cli import main; main()", "serve", "r1", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=runs[0].parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            first = process.stdout.readline()
            port = int(re.search(r"http://127\.0\.0\.1:(\d+)/ shows r1; Ctrl-C ends it", first)[1])
            with socket.create_connection(("127.0.0.1", port)):
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "stopped\n", "")
