"""One setting names the authorities of one's own, whoever asks."""

import os
import ssl
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from controlplane.authorities import authorities_in
from controlplane.environment import PROJECT
from tests.certificates import self_signed

ASKS = """
    import sys, urllib.request
    from controlplane.garbage import set_up_django
    set_up_django()
    import httpx2
    from common.outbound.transport import PinnedTransport
    from kube.access import Access
    from kube.real.transport import tls_context
    from model_store.backends.bucket.client import _client

    url = sys.argv[1]
    ways = {
        "hubs, webhooks, providers": lambda: httpx2.Client(
            transport=PinnedTransport(lambda *_: None), trust_env=False
        ).get(url).raise_for_status(),
        "bucket": lambda: _client(url, "eu-1", True, 0).head_bucket(Bucket="models"),
        "cluster": lambda: urllib.request.urlopen(url, context=tls_context(Access(server=url, token=None))),
        "child": lambda: urllib.request.urlopen(url),
    }
    for name, ask in ways.items():
        try:
            ask()
            print(name, "trusts")
        except Exception as error:
            print(name, "refuses" if "certificate" in str(error).lower() else repr(error))
"""
WAYS = ("hubs, webhooks, providers", "bucket", "cluster", "child")


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate that no system trusts, and its key."""
    place = tmp_path_factory.mktemp("authority")
    self_signed(place / "ca.pem", place / "key.pem", of="IP:127.0.0.1")
    return place


@pytest.fixture
def url(authority: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "ca.pem", authority / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def asked(url: str, home: Path, **settings: str) -> list[str]:
    """Return what a process of ours says of each of its ways to the URL."""
    ambient = {name: text for name, text in os.environ.items() if not name.startswith(("SLIPWAY_", "SSL_"))}
    names = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "SLIPWAY_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ASKS), url],
        cwd=PROJECT,
        env=ambient | names | {"DJANGO_SETTINGS_MODULE": "controlplane.settings.test"} | settings,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.splitlines()


def test_what_is_signed_by_an_authority_of_ones_own_is_trusted_on_every_way_by_one_setting(
    url: str, authority: Path, tmp_path: Path
):
    assert asked(url, tmp_path) == [f"{name} refuses" for name in WAYS]
    trusted = asked(url, tmp_path, SLIPWAY_CA_FILE=str(authority / "ca.pem"))
    assert trusted == [f"{name} trusts" for name in WAYS]
    # Those of the system still count.
    bundle = (tmp_path / "run/authorities.pem").read_text()
    assert bundle.count("BEGIN CERTIFICATE") > 50


@pytest.mark.parametrize("text", ["", "no certificate", None])
def test_a_file_without_authorities_stops_the_process_with_a_sentence(tmp_path: Path, text: str | None):
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=str(file)):
        authorities_in(str(file))
