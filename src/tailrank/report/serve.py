"""The server of `tailrank serve`: three addresses, for this computer only.

It listens on 127.0.0.1, and a request must say so: its Host must be this server, or a page of another site could reach
it through a name that points here (DNS rebinding); its Origin, if it has one, must be this server. The path must be
one of three words and never becomes a path of a file. Requests are small or refused.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tailrank.checks import InputError
from tailrank.report.site import Site
from tailrank.text import printable

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
    """Serves a site; at most `MOST_REQUESTS` at a time, further ones are cut off."""

    daemon_threads = True
    # Closing must not wait for a browser that keeps a connection open.
    block_on_close = False

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__((ADDRESS, port), Handler)

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a request may call this server."""
        return tuple(f"{name}:{self.server_port}" for name in (ADDRESS, "localhost"))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the request, if there is one free."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then give the thread back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One line for what should not happen; nothing for browsers that go away."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            print(printable(f"tailrank: error: {type(error).__name__}: {error}"), file=sys.stderr)


class Bounded(io.RawIOBase):
    """A stream whose lines after the first may be `MOST_HEADERS` bytes long altogether."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.first, self.left = stream, True, MOST_HEADERS

    def readline(self, size: int | None = -1) -> bytes:
        """A line; an error, which the parser of headers turns into 431, when there are too many bytes."""
        line: bytes = self.stream.readline(min(65537, size if size is not None and size >= 0 else 65537))
        if self.first:
            self.first = False
            return line
        self.left -= len(line)
        if self.left < 0:
            raise http.client.LineTooLong("header")
        return line

    def read(self, size: int = -1) -> bytes:
        """Bytes of the body."""
        return bytes(self.stream.read(size))


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
        self.rfile = Bounded(self.rfile)  # type: ignore[assignment]

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
            self._check()
            if self.path in others:
                raise Refused(405, "this address does not take this method")
            if self.path not in routes:
                raise Refused(404, "there is nothing here")
            routes[self.path]()
        except Refused as refused:
            self.send_error(refused.code, str(refused))
        except (InputError, OSError) as error:
            if isinstance(error, ConnectionError | socket.timeout):
                raise
            self.send_error(503 if self.command == "GET" else 400, str(error))

    def _check(self) -> None:
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
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 9:
            raise Refused(400 if len(length) <= 9 else 413, "Content-Length: must be a small whole number")
        if int(length) > MOST_BODY:
            raise Refused(413, f"Content-Length: must be at most {MOST_BODY}")

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
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
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
