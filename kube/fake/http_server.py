"""The fake API server over HTTP, so that the real client, kubectl, or another process can talk to it."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from kube.fake.server import FakeApiServer
from kube.fake.watching import WatchStream
from kube.fake.wire import ANONYMOUS, UNKNOWN, ApiRequest, ApiResponse, RequestUser

WATCH_SECONDS = 300.0
"""The longest, where nobody says how long."""
LOOK_SECONDS = 0.05


class FakeHttpServer(ThreadingHTTPServer):
    """`tokens`: who each bearer token speaks for. Serves from its construction until `close`."""

    daemon_threads = True

    def __init__(self, server: FakeApiServer, *, tokens: Mapping[str, RequestUser], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.api = server
        self.tokens = tokens
        threading.Thread(target=self.serve_forever, name="fake API server", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeHttpServer

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _answer(self) -> None:
        address = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        answer = self.server.api.handle(
            ApiRequest(
                self.command,
                unquote(address.path),
                dict(parse_qsl(address.query, keep_blank_values=True)),
                {name.lower(): value for name, value in self.headers.items()},
                self.rfile.read(length),
                self._user(),
            )
        )
        if isinstance(answer, WatchStream):
            self._stream(answer)
        else:
            self._send(answer)

    def _user(self) -> RequestUser:
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or not token:
            return ANONYMOUS
        return self.server.tokens.get(token, UNKNOWN)

    def _send(self, answer: ApiResponse) -> None:
        body = answer.as_bytes()
        self.send_response(answer.status)
        for name, value in ({"content-type": "application/json"} | answer.headers).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, watch: WatchStream) -> None:
        storage = self.server.api.storage
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        began = storage.seconds()
        try:
            while not watch.has_ended:
                for event in watch.events():
                    self._chunk(json.dumps(event).encode() + b"\n")
                if not watch.limit_seconds and storage.seconds() - began > WATCH_SECONDS:
                    break
                with storage.changed:
                    storage.changed.wait(LOOK_SECONDS)
            self._chunk(b"")
        except OSError:
            self.close_connection = True  # whoever watched is gone

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        return
