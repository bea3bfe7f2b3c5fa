"""`ModelServer`: a model over HTTP, by the server of Python's standard library.

It is meant for a machine's own programs and for trying a model out: one prediction is computed at a
time, nobody logs in, and nothing is encrypted.
"""

from __future__ import annotations

import io
import ipaddress
import secrets
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from trainkit.cli.serving import page
from trainkit.cli.serving.array_bodies import JSON, BodyError, TooLargeError
from trainkit.cli.serving.model_worker import BusyError, ModelWorker, UnfinishedError
from trainkit.cli.serving.predictions import CONTENT_TYPES, as_json, metadata_of, predict, status_of
from trainkit.cli.serving.servable import InputError, Servable, computed
from trainkit.core.files.printable import printable_line

MAX_BYTES = 64 << 20
TIMEOUT_SECONDS = 30.0
MAX_CONNECTIONS = 64
_CHUNK = 1 << 16
_MOST_DRAINED = 1 << 20
FORM = "application/x-www-form-urlencoded"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b'Content-Length: 47\r\n\r\n{"error": "there are too many connections now"}'
)


class Refusal(Exception):
    """A request that is answered by an error.

    Attributes:
        status: the status code.
        headers: of the answer.
    """

    def __init__(self, status: HTTPStatus, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


class ModelServer(ThreadingHTTPServer):
    """Serves a model, a thread for each connection, one prediction at a time.

    Args:
        servable: the model.
        host: address to listen on.
        port: port; 0 is any free one, `server_port` says which.
        max_bytes: the most bytes that the body of a request may have.
        timeout: seconds that a client may take for the head of a request, and for its body, and
            that a prediction may take.
        max_connections: so many at a time; more are turned away with 503.
        log: whether each request is written to stderr.

    Raises:
        OSError: the address can't be listened on.
        ValueError: a limit is not above 0.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        servable: Servable,
        host: str = "127.0.0.1",
        port: int = 8000,
        max_bytes: int = MAX_BYTES,
        timeout: float = TIMEOUT_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
        log: bool = True,
    ) -> None:
        for name, limit in (
            ("max_bytes", max_bytes),
            ("timeout", timeout),
            ("max_connections", max_connections),
        ):
            if not limit > 0:
                raise ValueError(f"{name} must be above 0, it is {limit}")
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.servable = servable
        self.max_bytes = max_bytes
        self.seconds = timeout
        self.log = log
        self._room = threading.BoundedSemaphore(max_connections)
        self._worker = ModelWorker()
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(str(self.server_address[0])).is_loopback

    @property
    def model_path(self) -> str:
        """The path of the model."""
        return f"/v1/models/{quote(self.servable.name, safe='')}"

    def server_bind(self) -> None:
        """Listen, without asking a name server what the machine is called."""
        super(ThreadingHTTPServer, self).server_bind()
        self.server_name, self.server_port = (
            str(self.server_address[0]),
            int(self.server_address[1]),
        )

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, or turn it away."""
        if not self._room.acquire(blocking=False):
            try:
                request.settimeout(1)
                request.sendall(_BUSY)
            except OSError:
                pass
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error of the server's."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def compute(self, signature: Any, arrays: dict[str, Any]) -> dict[str, Any]:
        """The results, when the model is free.

        Raises:
            Refusal: it is not free, or not ready, in time.
            InputError: the model refuses the values.
        """
        try:
            result: dict[str, Any] = self._worker.compute(
                computed, (signature, arrays), self.seconds
            )
            return result
        except BusyError:
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"the model was busy with other requests for {self.seconds:g} seconds",
            ) from None
        except UnfinishedError:
            raise Refusal(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"the model did not finish within {self.seconds:g} seconds",
            ) from None

    def server_close(self) -> None:
        """Stop listening; a prediction that runs is not waited for."""
        super().server_close()
        self._worker.close()


class _TimedReader(io.RawIOBase):
    """What a client sends, as long as it comes before a moment.

    A limit on each wait alone would let a client go on for ever, a byte at a time.

    Attributes:
        end: the moment, by `time.monotonic`.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self.end = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the client takes too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "trainkit", ""
    server: ModelServer

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._reader = _TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Read and answer a request, whose line and headers have to come in time."""
        self._reader.end = time.monotonic() + self.server.seconds
        super().handle_one_request()

    # ------------------------------------------------------------------ methods

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_HEAD(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _not_allowed(self) -> None:
        def refuse() -> Any:
            self._path()
            raise self._wrong_method("GET, HEAD, POST")

        self._answer(refuse)

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _not_allowed

    def _wrong_method(self, allowed: str) -> Refusal:
        text = f"{self.command} is not answered here; {allowed} is"
        return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, text, Allow=allowed)

    def _get(self) -> tuple[str, bytes, dict[str, str]]:
        path, base = self._path(), self.server.model_path
        if path == "/":
            nonce = secrets.token_urlsafe(16)
            text = page.page_of(self.server.servable, f"{base}:predict", nonce)
            headers = {"Content-Security-Policy": page.POLICY.format(nonce=nonce)}
            return "text/html; charset=utf-8", text.encode(), headers
        if path == base:
            return JSON, as_json(status_of(self.server.servable)), {}
        if path == f"{base}/metadata":
            return JSON, as_json(metadata_of(self.server.servable)), {}
        if path == f"{base}:predict":
            raise self._wrong_method("POST")
        raise self._unknown(path)

    def _post(self) -> tuple[str, bytes, dict[str, str]]:
        path, base = self._path(), self.server.model_path
        if path in ("/", base, f"{base}/metadata"):
            raise self._wrong_method("GET, HEAD")
        if path != f"{base}:predict":
            raise self._unknown(path)
        self._check_origin()
        # what `curl -d` says where nobody tells it otherwise, as in TensorFlow Serving's examples
        kind = self.headers.get_content_type() if "content-type" in self.headers else FORM
        kind = JSON if kind == FORM else kind
        if kind not in CONTENT_TYPES:
            raise Refusal(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"the body is {printable_line(kind)!r}; Content-Type must be one of "
                f"{', '.join(CONTENT_TYPES)}",
            )
        accept = self.headers.get("Accept", "").split(";")[0].strip().lower()
        body = self._body()
        answer = predict(
            self.server.servable, self.server.compute, body, kind, accept, self.server.max_bytes
        )
        return (*answer, {})

    def _check_host(self) -> None:
        """Refuse what a page from elsewhere sends to this machine under a name of its own."""
        try:
            name = urlsplit(f"//{self.headers.get('Host', 'localhost')}").hostname
        except ValueError:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the Host of the request is no address") from None
        if self.server.is_local and name not in (*_LOCAL, self.server.server_name):
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                f"the request is for the host {printable_line(name)!r}; this server answers for "
                f"{', '.join(_LOCAL)} alone, unless it is started with another --host",
            )

    def _check_origin(self) -> None:
        """Refuse what a browser sends for a page of another server, such as a form."""
        origin = self.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != self.headers.get("Host"):
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                f"the request comes from a page of {printable_line(origin)!r}; pages of other "
                "servers may not ask this one",
            )

    def _path(self) -> str:
        """The path, with version 1 of the model as the model."""
        self._check_host()
        path = self.path.partition("?")[0]
        # compared without escapes: clients escape other characters than this server does
        plain = unquote(path)
        model = f"/v1/models/{self.server.servable.name}"
        for start in (f"{model}/versions/1", model):
            rest = plain.removeprefix(start)
            if plain.startswith(start) and rest in ("", "/metadata", ":predict"):
                return f"{self.server.model_path}{rest}"
        return path

    def _unknown(self, path: str) -> Refusal:
        base = self.server.model_path
        text = f"there is no {printable_line(path)[:200]!r} here; there are /, {base}, "
        return Refusal(HTTPStatus.NOT_FOUND, f"{text}{base}/metadata and {base}:predict")

    # ------------------------------------------------------------------ the body of a request

    def _length(self) -> int:
        """How many bytes follow, as the client says."""
        if "transfer-encoding" in self.headers:
            raise Refusal(
                HTTPStatus.LENGTH_REQUIRED, "a body in chunks has no length; send Content-Length"
            )
        lengths = self.headers.get_all("Content-Length")
        if not lengths:
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the request has no Content-Length")
        text = lengths[0].strip()
        if len(set(lengths)) > 1 or not (text.isascii() and text.isdigit()):
            length = printable_line(", ".join(lengths))[:60]
            raise Refusal(HTTPStatus.BAD_REQUEST, f"Content-Length is {length!r}, not a number")
        if len(text) > 18 or int(text) > self.server.max_bytes:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body has {text[:30]} bytes, {self.server.max_bytes} are the most",
            )
        return int(text)

    def _body(self) -> bytes:
        """The whole body, which is read only once its length is known to be allowed."""
        length = self._length()
        self._reader.end = time.monotonic() + self.server.seconds
        body = bytearray()
        while len(body) < length:
            try:
                part = self.rfile.read1(min(_CHUNK, length - len(body)))
            except TimeoutError:
                raise Refusal(
                    HTTPStatus.REQUEST_TIMEOUT,
                    f"{len(body)} of {length} bytes came within {self.server.seconds:g} seconds",
                ) from None
            if not part:
                raise ConnectionAbortedError("the client hung up")
            body += part
        self._unread = False
        return bytes(body)

    # ------------------------------------------------------------------ answers

    def _answer(self, handle: Any) -> None:
        """Send what `handle` gives; each failure as an error in words."""
        self._unread = self._has_body()
        try:
            kind, content, headers = handle()
            self._send(HTTPStatus.OK, kind, content, headers)
        except Refusal as refusal:
            self._send_error(refusal.status, str(refusal), refusal.headers)
        except TooLargeError as error:
            self._send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error))
        except (BodyError, InputError) as error:
            self._send_error(HTTPStatus.BAD_REQUEST, str(error))
        except MemoryError:
            self._send_error(HTTPStatus.SERVICE_UNAVAILABLE, "there is not enough memory")
        except OSError:
            self.close_connection = True  # the client is gone
        except Exception as error:
            text = f"the model failed: {type(error).__name__}: {error}"
            self._send_error(HTTPStatus.INTERNAL_SERVER_ERROR, text)

    def _has_body(self) -> bool:
        length = self.headers.get("Content-Length", "0").strip()
        return "transfer-encoding" in self.headers or length not in ("", "0")

    def _send_error(
        self, status: HTTPStatus, text: str, headers: dict[str, str] | None = None
    ) -> None:
        self._send(status, JSON, as_json({"error": text}), headers or {})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses by itself, such as a line that is no request."""
        self._unread = True
        if self.request_version == "HTTP/0.9":  # what a line that makes no sense is taken for
            self.request_version = self.protocol_version
        status = HTTPStatus(code)
        text = printable_line(message or status.phrase)[:200]
        try:
            self._send_error(status, text)
        except OSError:
            self.close_connection = True

    def _send(self, status: HTTPStatus, kind: str, content: bytes, headers: dict[str, str]) -> None:
        self.connection.settimeout(self.server.seconds)
        if self._unread:  # what follows on this connection would be taken for a request
            self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        if self._unread:
            self._drain()

    def _drain(self) -> None:
        """Take some of what the client still sends, so that it gets to read the answer.

        Closing a socket with bytes that nobody read resets the connection, and the answer is lost.
        """
        try:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(0.2)
            taken = 0
            while taken < _MOST_DRAINED and (part := self.connection.recv(_CHUNK)):
                taken += len(part)
        except OSError:
            pass

    def log_message(self, format: str, *args: Any) -> None:
        """Tell of a request, with nothing in it that a terminal would obey."""
        if self.server.log:
            line = printable_line(format % args)
            print(f"{self.address_string()} {line}", file=sys.stderr)

    def address_string(self) -> str:
        """The client's address."""
        return str(self.client_address[0])
