"""A web server that receives webhooks, as a test scripts it."""

import hmac
import socket
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    def is_signed_with(self, secret: str) -> bool:
        """Check the signature by the words of the specification, not by our code."""
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        digest = hmac.new(b64decode(secret[len("whsec_") :]), signed, "sha256").digest()
        return f"v1,{b64encode(digest).decode()}" in self.headers["webhook-signature"].split(" ")


@dataclass
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"thanks"
    after_seconds: float = 0.0


class Receiver:
    """Answers each request with `reply`, or what `answer` makes of it."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.reply = Reply()
        self.answer: Callable[[Received], Reply] = lambda _: self.reply
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._door())
        self.server.daemon_threads = True

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?from=slipway"

    def _door(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class ReceivingHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                given = {name.lower(): value for name, value in self.headers.items()}
                got = Received(self.path, given, body)
                receiver.received.append(got)
                reply = receiver.answer(got)
                time.sleep(reply.after_seconds)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                # Whoever asked may have gone: that is what some tests are about.
                with suppress(ConnectionError):
                    self.wfile.write(reply.body)

            def log_message(self, *_: object) -> None:
                pass

        return ReceivingHandler


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()


@contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that says what `talk` says to each connection, which need not be HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        talk(connection)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=60)
