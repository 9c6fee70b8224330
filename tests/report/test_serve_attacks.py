"""The server against clients that are slow, many, malformed, or all of it: others are still answered."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
from test_serve import request, serving, talk

from tailrank.report.live import server as live
from tailrank.report.live.server import MOST_REQUESTS


class Still:
    """A site that never changes."""

    def __init__(self, size=2):
        self.text = b" " * (size - 2) + b"{}"

    def page(self):
        return b"<!doctype html>"

    def data(self):
        return self.text, '"mark"'

    def solve(self, tau):
        return json.dumps({"tau": tau}).encode()


@pytest.fixture
def server():
    with serving(Still()) as running:
        yield running


def connected(server, stack, count, data=b""):
    lines = [stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port))) for _ in range(count)]
    for line in lines:
        line.settimeout(60)
        line.sendall(data)
    return lines


def until(holds):
    for _ in range(6000):
        if holds():
            return True
        time.sleep(0.01)
    return False


def test_who_is_slow_to_ask_gives_way(server):
    with ExitStack() as stack:
        held = connected(server, stack, MOST_REQUESTS, b"GET /data HT")
        assert until(lambda: len(server._asking) == MOST_REQUESTS)
        for _ in range(3):
            assert request(server)[0] == 200
        # The first ones were cut off, the last one may still ask.
        assert held[0].recv(10) == b""
        held[-1].sendall(f"TP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
        assert held[-1].recv(12) == b"HTTP/1.0 200"


def test_a_byte_now_and_then_does_not_keep_a_place(monkeypatch):
    monkeypatch.setattr(live, "SECONDS", 0.5)
    with serving(Still()) as server, ExitStack() as stack:
        (line,) = connected(server, stack, 1, b"GET /data HTTP/1.1\r\nX: ")
        ended = threading.Event()

        def drip():
            try:
                while not ended.is_set():
                    line.sendall(b"a")
                    time.sleep(0.05)
            except OSError:
                pass

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            answer = line.recv(10)  # the end, while bytes still come
        except ConnectionError:
            answer = b""
        ended.set()
        thread.join()
        assert answer == b""
        assert until(lambda: server._free._value == MOST_REQUESTS)


def test_who_does_not_read_the_answer_stops_nobody(monkeypatch):
    monkeypatch.setattr(live, "SECONDS", 1.5)
    with serving(Still(50_000_000)) as server, ExitStack() as stack:
        own = f"GET /data HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode()
        connected(server, stack, MOST_REQUESTS, own)
        assert until(lambda: server._free._value < MOST_REQUESTS)
        assert until(lambda: (found := request(server, path="/")) is not None and found[0] == 200)
        assert until(lambda: server._free._value == MOST_REQUESTS)


SMUGGLED = (
    "Content-Length: 5\r\nContent-Length: 0",
    "Content-Length: 0\r\nContent-Length: 0",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: identity\r\nContent-Length: 3",
    "Content-Length: +3",
    "Content-Length: 0x3",
    "Content-Length: 3, 3",
    "Content-Length: \u0663",
    "Content-Length: 3 3",
    "Content-Length:\r\n 3\r\n,3",
)


@pytest.mark.parametrize("headers", SMUGGLED)
def test_lengths_that_two_readers_could_read_differently(server, headers):
    own = f"127.0.0.1:{server.server_port}"
    text = f"POST /solve HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\nContent-Type: application/json\r\n{headers}"
    status, _, _ = talk(server, text.encode() + b'\r\n\r\n{"tau": 1}')
    assert status in (400, 411)


def test_one_answer_a_connection(server):
    one = f"GET /data HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\nConnection: keep-alive\r\n\r\n".encode()
    status, headers, body = talk(server, one * 5)
    assert (status, headers["Connection"], body) == (200, "close", b"{}")


@pytest.mark.parametrize(
    "host",
    [
        "[::1]:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "127.1:{port}",
        "2130706433:{port}",
        "localhost.:{port}",
        "127.0.0.1:0{port}",
        "u@127.0.0.1:{port}",
        "127.0.0.1:{port}/x",
        "127.0.0.1:{port}, x",
    ],
)
def test_other_spellings_of_this_computer_are_refused(server, host):
    assert request(server, host=host.format(port=server.server_port))[0] == 403


def test_absolute_addresses_lead_nowhere(server):
    for target in (f"http://127.0.0.1:{server.server_port}/data", "http://evil.example/data", "file:///etc/passwd"):
        assert request(server, path=target)[0] == 404


def asked(rng, port):
    """A request like a browser's, with some of its bytes changed, doubled or dropped."""
    own = f"127.0.0.1:{port}".encode()
    whole = [b"GET /data HTTP/1.1", b"Host: " + own, b"Accept: */*", b'If-None-Match: "mark"', b"Connection: close"]
    if rng.random() < 0.4:
        whole = [b"POST /solve HTTP/1.1", b"Host: " + own, b"Origin: http://" + own]
        whole += [b"Content-Type: application/json", b"Content-Length: 12"]
    odd = (
        b"\0",
        b"\r",
        b"\n",
        b"\xff",
        b" ",
        b":",
        b"\t x",
        b"%00",
        b"HTTP/9.9",
        b"A" * 3000,
        b"GET",
        b",",
        b"\r\n\r\n",
    )
    for _ in range(int(rng.integers(4))):
        i = int(rng.integers(len(whole)))
        at = int(rng.integers(len(whole[i]) + 1))
        way = int(rng.integers(4))
        if way == 0:
            whole[i] = whole[i][:at] + odd[int(rng.integers(len(odd)))] + whole[i][at:]
        elif way == 1:
            whole.insert(i, whole[i])
        elif way == 2:
            whole[i] = whole[i][:at]
        else:
            whole[i] = whole[i][:at] + rng.bytes(3) + whole[i][at + 3 :]
    return b"\r\n".join(whole) + b'\r\n\r\n{"tau": 0.5}'


def test_malformed_requests_get_a_status_or_nothing(server, capsys):
    rng = np.random.default_rng(0)
    known = {200, 304, 400, 403, 404, 405, 411, 413, 414, 415, 431, 501, 505}
    seen = set()
    for _ in range(300):
        found = talk(server, asked(rng, server.server_port), half=True)
        seen.add(found and found[0])
        if found:
            assert found[0] in known
            assert found[1]["Connection"] == "close"
    assert {200, 400, 403} <= seen
    assert request(server)[0] == 200
    assert until(lambda: server._free._value == MOST_REQUESTS)
    assert capsys.readouterr().err == ""
