"""Requests over the network to an API server, and its silence."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kube.access import Access, FixedToken
from kube.client import KubeClient
from kube.errors import ApiUnreachable, BadConfig, ServerFault, Throttled
from kube.rate import Rate, TokenBucket
from kube.real.transport import RealTransport
from kube.resources import CONFIG_MAPS, PODS, Ref

pytestmark = pytest.mark.any_database
PLACE = Ref(CONFIG_MAPS, "a", "default")
Answer = Callable[[BaseHTTPRequestHandler], None]


def say(
    door: BaseHTTPRequestHandler, body: bytes = b"{}", status: int = 200, length: int | None = None
) -> None:
    door.send_response(status)
    door.send_header("Content-Length", str(len(body) if length is None else length))
    door.end_headers()
    door.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    answer: Answer = staticmethod(say)
    asked: list[tuple[str, str, str | None]]
    connections = 0
    over: threading.Event
    """Set when the test has ended: until then a silent answer stays silent."""

    def handle_error(self, *_: object) -> None:
        """Whoever asked has gone: that is what some of these tests are about."""

    def get_request(self):  # type: ignore[no-untyped-def]
        self.connections += 1
        return super().get_request()


class ApiHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        if length := int(self.headers.get("Content-Length") or 0):
            self.rfile.read(length)
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization")))
        self.server.answer(self)

    do_POST = do_PATCH = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), ApiHandler)
    server.asked, server.over = [], threading.Event()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()


def client(
    served: Server, *, limit_seconds: float = 5.0, rate: Rate | None = None, **access: object
) -> KubeClient:
    given = {"server": f"http://127.0.0.1:{served.server_port}", "token": FixedToken("secret")} | access
    transport = RealTransport(Access(**given), rate=rate or Rate(1000, 1000))  # type: ignore[arg-type]
    return KubeClient(transport, limit_seconds=limit_seconds)


def test_requests_carry_the_token_and_share_a_connection(server: Server) -> None:
    asking = client(server)
    for _ in range(3):
        asking.get(PLACE)
    asking.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}})
    assert server.asked[0] == ("GET", "/api/v1/namespaces/default/configmaps/a", "Bearer secret")
    assert server.asked[-1][:2] == ("PATCH", "/api/v1/namespaces/b/configmaps/a?fieldManager=slipway")
    assert server.connections == 1


def test_a_renewed_token_is_tried_once(server: Server) -> None:
    class Renewed:
        value = "old"

        def token(self) -> str:
            return self.value

        def renew(self) -> bool:
            self.value = "new"
            return True

    server.answer = lambda door: say(door, status=200 if "new" in door.headers["Authorization"] else 401)
    client(server, token=Renewed()).get(PLACE)
    assert [one[2] for one in server.asked] == ["Bearer old", "Bearer new"]


def test_nothing_is_followed_elsewhere(server: Server) -> None:
    def elsewhere(door: BaseHTTPRequestHandler) -> None:
        door.send_response(302)
        door.send_header("Location", "/stolen")
        door.send_header("Content-Length", "0")
        door.end_headers()

    server.answer = elsewhere
    with pytest.raises(ServerFault):
        client(server).get(PLACE)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda door: door.server.over.wait(),
        lambda door: say(door, b"{", length=1000) or door.server.over.wait(),
        lambda door: door.connection.close(),
    ],
    ids=["silence", "half an answer", "a cut"],
)
def test_what_does_not_answer_is_unreachable_in_time(server: Server, answer: Answer) -> None:
    server.answer = answer
    with pytest.raises(ApiUnreachable):
        client(server, limit_seconds=0.3).get(PLACE)


def test_an_answer_that_drips_ends_in_time(server: Server) -> None:
    def drip(door: BaseHTTPRequestHandler) -> None:
        say(door, b"", length=1_000_000)
        while not door.server.over.wait(0.05):
            door.wfile.write(b" ")

    server.answer = drip
    with pytest.raises(ApiUnreachable):
        client(server, limit_seconds=0.4).get(PLACE)


def test_nobody_there_is_unreachable(server: Server) -> None:
    with pytest.raises(ApiUnreachable, match="takes no connection"):
        client(server, server="http://127.0.0.1:1").get(PLACE)


def test_an_answer_that_is_no_json_says_so(server: Server) -> None:
    server.answer = lambda door: say(door, b"<html>")
    with pytest.raises(ServerFault, match="no JSON"):
        client(server).get(PLACE)


def event(name: str, version: str) -> bytes:
    metadata = {"name": name, "resourceVersion": version}
    return json.dumps({"type": "ADDED", "object": {"kind": "Pod", "metadata": metadata}}).encode()


def test_a_watch_is_read_as_it_comes_and_a_cut_line_is_no_change(server: Server) -> None:
    def stream(door: BaseHTTPRequestHandler) -> None:
        door.send_response(200)
        door.send_header("Connection", "close")
        door.end_headers()
        door.wfile.write(event("a", "5") + b"\n\n" + event("b", "6")[:10])
        door.wfile.flush()
        time.sleep(0.1)
        door.wfile.write(event("b", "6")[10:] + b"\n" + event("c", "7")[:20])
        door.close_connection = True

    server.answer = stream
    with client(server).watch(PODS, since="4") as changes:
        assert [next(changes).version, next(changes).version] == ["5", "6"]
        with pytest.raises(ApiUnreachable, match="in the middle of a change"):
            next(changes)
    assert "resourceVersion=4" in server.asked[0][1]


def test_a_watch_left_early_costs_no_other_request(server: Server) -> None:
    def answer(door: BaseHTTPRequestHandler) -> None:
        if "watch" not in door.path:
            return say(door)
        door.send_response(200)
        door.send_header("Transfer-Encoding", "chunked")
        door.end_headers()
        line = event("a", "5") + b"\n"
        door.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        door.wfile.flush()
        return door.server.over.wait()

    server.answer = answer
    asking = client(server, limit_seconds=30)
    with asking.watch(PODS, since="4") as changes:
        assert next(changes).item["metadata"]["name"] == "a"
    asking.get(PLACE)


def test_more_than_the_rate_waits_its_turn_or_is_refused() -> None:
    now, waits = [0.0], []
    bucket = TokenBucket(Rate(per_second=10, burst=2), clock=lambda: now[0], sleep=waits.append)
    assert [bucket.take(limit_seconds=1) for _ in range(4)] == pytest.approx([0, 0, 0.1, 0.2])
    with pytest.raises(Throttled) as refused:
        bucket.take(limit_seconds=0.2)
    assert refused.value.retry_after_seconds == pytest.approx(0.3)
    now[0] = 10.0
    assert bucket.take(limit_seconds=1) == 0


def test_the_rate_holds_over_the_network(server: Server) -> None:
    asking = client(server, rate=Rate(per_second=0.1, burst=1), limit_seconds=0.5)
    asking.get(PLACE)
    with pytest.raises(Throttled):
        asking.get(PLACE)
    assert len(server.asked) == 1


def certificate(directory: Path) -> tuple[str, str]:
    """Return a self-signed certificate of 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cluster")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    public = made.public_bytes(serialization.Encoding.PEM).decode()
    (directory / "pair.pem").write_text(public + private)
    return public, private


def test_a_server_is_who_its_authority_says_and_we_are_who_our_certificate_says(
    server: Server, tmp_path: Path
) -> None:
    public, private = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    context.load_verify_locations(cadata=public)
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    ours = {
        "server": f"https://127.0.0.1:{server.server_port}",
        "certificate_pem": public,
        "key_pem": private,
    }
    client(server, authority_pem=public, **ours).get(PLACE)
    with pytest.raises(BadConfig, match="not to be trusted"):
        client(server, **ours).get(PLACE)
    with pytest.raises(BadConfig, match="do not belong together"):
        client(server, authority_pem=public, **ours | {"key_pem": certificate(tmp_path)[1]})
    with pytest.raises(BadConfig, match="is no certificate"):
        client(server, authority_pem="nonsense", **ours)
