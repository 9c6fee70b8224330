"""The server of `tailrank serve`: three addresses, for this computer only.

It listens on 127.0.0.1, and a request must say so: its Host must be this server, or a page of another site could reach
it through a name that points here (DNS rebinding); its Origin, if it has one, must be this server. The path must be
one of three words and never becomes a path of a file. Requests are small and quick or refused: who is slow to ask is
cut off after `SECONDS`, or at once when others wait.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tailrank.checks import InputError, printable
from tailrank.report.live.site import Site

ADDRESS = "127.0.0.1"
MOST_BODY = 1024
MOST_HEADERS = 32 * 1024
MOST_REQUESTS = 16
SECONDS = 10.0
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Server(ThreadingHTTPServer):
    """Serves a site, `MOST_REQUESTS` at a time; one more takes the place of the slowest that is still asking."""

    daemon_threads = True
    # Closing must not wait for a browser that keeps a connection open.
    block_on_close = False

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        self._asking: dict[Any, None] = {}
        self._lock = threading.Lock()
        super().__init__((ADDRESS, port), Handler)

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a request may call this server."""
        return tuple(f"{name}:{self.server_port}" for name in (ADDRESS, "localhost"))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the request, if there is one free or can be freed."""
        if not self._free.acquire(blocking=False) and not (self._cut_off() and self._free.acquire(timeout=1.0)):
            self.shutdown_request(request)
            return
        with self._lock:
            self._asking[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.forget(request)
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then give the thread back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.forget(request)
            self._free.release()

    def forget(self, request: Any) -> None:
        """All of the request has been read."""
        with self._lock:
            self._asking.pop(request, None)

    def _cut_off(self) -> bool:
        """End the request that has been asking for longest; whether there was one."""
        with self._lock:
            slowest = next(iter(self._asking), None)
            self._asking.pop(slowest, None)
        if slowest is not None:
            with suppress(OSError):
                slowest.shutdown(socket.SHUT_RDWR)
        return slowest is not None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One line for what should not happen; nothing for browsers that go away."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            print(printable(f"tailrank: error: {type(error).__name__}: {error}"), file=sys.stderr)


class Bounded(io.RawIOBase):
    """What a client asks: lines after the first of `MOST_HEADERS` bytes altogether, everything within `SECONDS`."""

    def __init__(self, stream: Any, connection: socket.socket) -> None:
        self.stream, self.connection = stream, connection
        self.first, self.left, self.end = True, MOST_HEADERS, time.monotonic() + SECONDS

    def _some(self, most: int) -> bytes:
        """Bytes that have come, without a newline before the last; none at the end. Late is a TimeoutError."""
        # A limit for every read would let who sends a byte now and then stay for ever.
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        found = self.stream.peek()[:most]
        return bytes(self.stream.read(found.find(b"\n") + 1 or len(found)))

    def _until(self, most: int, line: bool) -> bytes:
        data = b""
        while len(data) < most and not (line and data.endswith(b"\n")):
            part = self._some(most - len(data))
            if not part:
                break
            data += part
        return data

    def readline(self, size: int | None = -1) -> bytes:
        """A line; an error, which the parser of headers turns into 431, when there are too many bytes."""
        line = self._until(min(65537, size if size is not None and size >= 0 else 65537), line=True)
        if self.first:
            self.first = False
            return line
        self.left -= len(line)
        if self.left < 0:
            raise http.client.LineTooLong("header")
        return line

    def read(self, size: int = -1) -> bytes:
        """Bytes of the body, at most `MOST_BODY`."""
        return self._until(min(size, MOST_BODY) if size >= 0 else MOST_BODY, line=False)


class Handler(BaseHTTPRequestHandler):
    """Answers one request and closes."""

    server: Server
    server_version, sys_version = "tailrank", ""
    # Rubbish is answered with a status too, not as in HTTP/0.9.
    default_request_version = "HTTP/1.0"
    timeout = SECONDS

    def setup(self) -> None:
        """Bound what can be read."""
        super().setup()
        self.rfile = Bounded(self.rfile, self.connection)  # type: ignore[assignment]

    def do_GET(self) -> None:
        """The page or its data."""
        self._answer({"/": self._page, "/data": self._data}, ("/solve",))

    def do_POST(self) -> None:
        """A new solution."""
        self._answer({"/solve": self._solve}, ("/", "/data"))

    def _refuse_method(self) -> None:
        self._answer({}, ("/", "/data", "/solve"))

    do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def _answer(self, routes: dict[str, Any], others: tuple[str, ...]) -> None:
        try:
            length = self._check()
            if self.path in others:
                raise Refused(405, "this address does not take this method")
            if self.path not in routes:
                raise Refused(404, "there is nothing here")
            self.body = self.rfile.read(length)
            self.server.forget(self.connection)
            self.connection.settimeout(SECONDS)
            routes[self.path]()
        except Refused as refused:
            self.send_error(refused.code, str(refused))
        except (InputError, OSError) as error:
            if isinstance(error, ConnectionError | socket.timeout):
                raise
            self.send_error(503 if self.command == "GET" else 400, str(error))

    def _check(self) -> int:
        """The length of the body of a request that may be answered."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].strip().lower() not in self.server.hosts:
            raise Refused(403, "Host: this server answers to its own address only")
        origins = self.headers.get_all("Origin") or []
        own = tuple(f"http://{host}" for host in self.server.hosts)
        if len(origins) > 1 or any(origin.strip().lower() not in own for origin in origins):
            raise Refused(403, "Origin: this server answers to its own pages only")
        if self.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise Refused(403, "Sec-Fetch-Site: this server answers to its own pages only")
        if self.headers.get("Transfer-Encoding") is not None:
            raise Refused(411, "Content-Length: must be given")
        lengths = self.headers.get_all("Content-Length") or ["0"]
        if len(lengths) > 1:
            raise Refused(400, "Content-Length: must be given once")
        length = lengths[0]
        if not (length.isascii() and length.isdigit()) or len(length) > 9:
            raise Refused(400 if len(length) <= 9 else 413, "Content-Length: must be a small whole number")
        if int(length) > MOST_BODY:
            raise Refused(413, f"Content-Length: must be at most {MOST_BODY}")
        return int(length)

    def _page(self) -> None:
        self._send(200, "text/html; charset=utf-8", self.server.site.page())

    def _data(self) -> None:
        text, mark = self.server.site.data()
        if self.headers.get("If-None-Match") == mark:
            self._send(304, "application/json", b"", mark)
        else:
            self._send(200, "application/json", text, mark)

    def _solve(self) -> None:
        if self.headers.get("Origin") is None:
            raise Refused(403, "Origin: must be given")
        if (self.headers.get("Content-Type") or "").split(";")[0].strip().lower() != "application/json":
            raise Refused(415, "Content-Type: must be application/json")
        try:
            asked = json.loads(self.body)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict) or set(asked) != {"tau"} or not isinstance(asked["tau"], int | float):
            raise Refused(400, 'the body must be {"tau": number}')
        found = self.server.site.solve(asked["tau"])
        if found is None:
            raise Refused(429, "another solution is being found; try again soon")
        self._send(200, "application/json", found)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A short JSON answer; the connection ends."""
        text = json.dumps({"error": " ".join((message or "refused").split())[:300]}).encode()
        self.close_connection = True
        self._send(int(code), "application/json", text)

    def _send(self, code: int, kind: str, body: bytes, mark: str | None = None) -> None:
        self.send_response(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        if mark:
            self.send_header("ETag", mark)
        self.end_headers()
        if self.command != "HEAD" and code != 304:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is the user's."""
