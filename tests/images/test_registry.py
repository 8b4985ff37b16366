"""Images are proposed and added from what a real registry has."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID
from django.test import Client

from accounts.actors import of_user
from accounts.states import Role
from common.errors import Invalid, NotAllowed
from common.outbound.faults import Forbidden
from images.models import RuntimeImage
from images.presets import PRESETS
from images.refreshing import Proposal, refresh_images
from images.registry import Registry, RegistryFault
from tests.cast import SYSTEM, api, person, team, token_of
from tests.images import registries
from tests.images.registries import RealRegistry, registry
from tests.slipway.conftest import Terminal
from tests.slipway.conftest import terminal as terminal

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.django_db,
    pytest.mark.skipif(not registries.is_here(), reason=registries.WHY_NOT),
]
VLLM = "vllm/vllm-openai"
CUDA = {"CUDA_VERSION": "12.8.1", "TORCH_CUDA_ARCH_LIST": "8.0 9.0 10.0+PTX"}
PASSWORD = "U*U"
BCRYPT = "ada:$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
"""Of that password: a test vector of bcrypt's."""


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealRegistry]:
    with registry(tmp_path) as found:
        yield found


def read(real: RealRegistry, *presets: str, **given: Any) -> list[Proposal]:
    return refresh_images(actor=SYSTEM, registry=real.url, presets=presets or ("vllm",), **given)


def test_the_newest_release_is_proposed_with_what_its_configuration_says(real: RealRegistry) -> None:
    real.push(VLLM, "v0.9.2", env=CUDA, text="older")
    digest = real.push(VLLM, "v0.10.2", env=CUDA)
    for tag in ("latest", "nightly", "v0.11.0rc1"):
        real.push(VLLM, tag, env=CUDA, text=tag)
    (found,) = read(real)
    assert (found.outcome, found.name, found.tag) == ("new", "vllm-0.10.2", "v0.10.2")
    assert found.reference == f"{real.host}/{VLLM}@{digest}"
    assert (found.cuda_version, found.code) == ("12.8", ("8.0", "9.0", "10.0+PTX"))
    assert found.size_bytes > 100
    assert not RuntimeImage.objects.exists()


def test_what_is_new_is_added_once(real: RealRegistry) -> None:
    real.push(VLLM, "v0.10.2", env=CUDA)
    (added,) = read(real, add=True)
    row = RuntimeImage.objects.get()
    assert (added.is_added, row.name, row.reference) == (True, "vllm-0.10.2", added.reference)
    assert (row.cuda_version, row.formats, row.size_bytes) == ("12.8", ["safetensors"], added.size_bytes)
    (again,) = read(real, add=True)
    assert (again.outcome, again.is_added) == ("known", False)


def test_a_tag_that_moved_makes_another_row_and_changes_none(real: RealRegistry) -> None:
    first = real.push(VLLM, "v0.10.2", env=CUDA)
    read(real, add=True)
    second = real.push(VLLM, "v0.10.2", env=CUDA, text="moved")
    (moved,) = read(real, add=True)
    assert (moved.outcome, moved.is_added) == ("moved", True)
    assert moved.name == f"vllm-0.10.2-{second[7:15]}"
    assert RuntimeImage.objects.get(name="vllm-0.10.2").digest == first
    assert RuntimeImage.objects.get(name=moved.name).digest == second
    assert read(real)[0].outcome == "known"


def test_an_index_is_named_as_a_whole_and_measured_by_platform(real: RealRegistry) -> None:
    children = {
        platform: real.push(VLLM, f"child-{number}", env=CUDA, text="x" * 5_000 * number, platform=platform)
        for number, platform in enumerate(("linux/amd64", "linux/arm64"), start=1)
    }
    digest = real.push_index(VLLM, "v0.10.2", children)
    (amd,), (arm,) = read(real), read(real, platform="linux/arm64")
    assert amd.reference == arm.reference == f"{real.host}/{VLLM}@{digest}"
    assert amd.size_bytes != arm.size_bytes
    (none,) = read(real, platform="linux/s390x")
    assert none.problem == "It is not built for linux/s390x, but for linux/amd64, linux/arm64."


def test_tags_of_several_cudas_give_an_image_each(real: RealRegistry) -> None:
    for tag in ("v0.5.2-cu118", "v0.5.3-cu126", "v0.5.3-cu128"):
        real.push("lmsysorg/sglang", tag, text=tag)
    found = read(real, "sglang")
    assert [(one.name, one.cuda_version) for one in found] == [
        ("sglang-0.5.3-cu126", "12.6"),
        ("sglang-0.5.3-cu128", "12.8"),
    ]


def test_a_preset_that_cannot_be_read_says_why_and_the_others_go_on(real: RealRegistry) -> None:
    real.push(VLLM, "v0.10.2", text="no environment")
    real.push("slipway/worker", "0.1.0", text="worker")
    real.push("nvidia/tritonserver", "latest", text="triton")
    found = {one.preset: one for one in read(real, *PRESETS, add=True)}
    assert "which CUDA it brings" in found["vllm"].problem
    assert "no such repository" in found["sglang"].problem
    assert "No tag" in found["triton"].problem
    assert found["worker"].is_added
    assert [row.name for row in RuntimeImage.objects.all()] == ["worker-0.1.0"]
    assert RuntimeImage.objects.get().runs_on_cpu


def test_tags_are_read_over_several_pages(real: RealRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("images.registry.PAGE", 2)
    tags = [f"v0.10.{number}" for number in range(7)]
    for tag in tags:
        real.push(VLLM, tag, env=CUDA)
    assert sorted(Registry(real.url).tags(VLLM)) == tags


def test_a_registry_below_a_path_is_asked_there(real: RealRegistry) -> None:
    real.push(f"mirror/hub/{VLLM}", "v0.10.2", env=CUDA)
    (found,) = refresh_images(actor=SYSTEM, registry=f"{real.url}/mirror/hub", presets=["vllm"])
    assert found.reference.startswith(f"{real.host}/mirror/hub/{VLLM}@sha256:")


def pull_secret(real: RealRegistry, password: str = PASSWORD) -> str:
    auth = base64.b64encode(f"ada:{password}".encode()).decode()
    return json.dumps({"auths": {real.host: {"auth": auth}}})


def test_a_registry_that_wants_a_password_takes_the_one_of_the_pull_secret(tmp_path: Path) -> None:
    (tmp_path / "htpasswd").write_text(BCRYPT)
    auth = {"htpasswd": {"realm": "test", "path": str(tmp_path / "htpasswd")}}
    with registry(tmp_path, auth=auth) as closed:
        RealRegistry(closed.url, ("ada", PASSWORD)).push(VLLM, "v0.10.2", env=CUDA)
        assert "pull secret" in read(closed)[0].problem
        assert "(401)" in read(closed, pull_secret=pull_secret(closed, "wrong"))[0].problem
        assert read(closed, pull_secret=pull_secret(closed))[0].outcome == "new"
        elsewhere = json.dumps({"auths": {"other.example.org": {"username": "ada", "password": PASSWORD}}})
        assert "pull secret" in read(closed, pull_secret=elsewhere)[0].problem


class TokenServer:
    """Signs a token for whoever asks, as the registry's documentation describes."""

    def __init__(self, place: Path) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tokens")]), datetime.now(UTC)
        builder = x509.CertificateBuilder(name, name, self.key.public_key(), x509.random_serial_number())
        self.certificate = (
            builder.not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .sign(self.key, hashes.SHA256())
        )
        self.bundle = place / "tokens.pem"
        self.bundle.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                scope = query["scope"][0]
                outer.asked.append((scope, self.headers.get("Authorization", "")))
                body = json.dumps({"token": outer.token(scope, query["service"][0])}).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, scope: str, service: str) -> str:
        kind, name, actions = scope.split(":")
        now = int(time.time())
        der = self.certificate.public_bytes(serialization.Encoding.DER)
        header = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]}
        claims = {
            "iss": "tokens", "sub": "", "aud": service, "exp": now + 300, "nbf": now - 60,
            "iat": now, "jti": "1",
            "access": [{"type": kind, "name": name, "actions": actions.split(",")}],
        }  # fmt: skip
        signed = b".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
        signature = self.key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        return (signed + b"." + encoded(signature)).decode()


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def test_a_registry_that_sends_for_a_token_gets_one_with_and_without_a_password(tmp_path: Path) -> None:
    with registry(tmp_path) as open_one:
        open_one.push(VLLM, "v0.10.2", env=CUDA)
    tokens = TokenServer(tmp_path)
    realm = f"http://127.0.0.1:{tokens.server.server_port}/token"
    auth = {
        "token": {
            "realm": realm,
            "service": "images",
            "issuer": "tokens",
            "rootcertbundle": str(tokens.bundle),
        }
    }
    with registry(tmp_path, auth=auth) as closed:
        assert read(closed)[0].outcome == "new"
        assert read(closed, pull_secret=pull_secret(closed))[0].outcome == "new"
    tokens.server.shutdown()
    tokens.server.server_close()
    basic = "Basic " + base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
    assert tokens.asked == [(f"repository:{VLLM}:pull", ""), (f"repository:{VLLM}:pull", basic)]


def test_content_of_another_digest_is_refused(real: RealRegistry, tmp_path: Path) -> None:
    digest = real.push(VLLM, "v0.10.2", env=CUDA)
    (blob,) = tmp_path.glob(f"data/docker/registry/v2/blobs/sha256/*/{digest[7:]}/data")
    manifest = json.loads(blob.read_text())
    config = manifest["config"]["digest"][7:]
    (kept,) = tmp_path.glob(f"data/docker/registry/v2/blobs/sha256/*/{config}/data")
    kept.write_text(kept.read_text().replace("12.8.1", "13.0.0"))
    with pytest.raises(RegistryFault, match="other content"):
        Registry(real.url).image(VLLM, "v0.10.2", platform="linux/amd64")


def test_addresses_of_this_machine_are_refused_unless_they_are_allowed(
    real: RealRegistry, settings: Any
) -> None:
    settings.SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ()
    with pytest.raises(Forbidden):
        Registry(real.url).tags(VLLM)
    assert "SLIPWAY_CLUSTER_ALLOWED_NETWORKS" in read(real)[0].problem


@pytest.mark.parametrize(
    "given",
    [
        {"registry": "ftp://x"},
        {"registry": "https://u:p@x"},
        {"presets": ["nope"]},
        {"tag": "v1", "presets": []},
        {"pull_secret": "{}"},
    ],
)
def test_what_cannot_be_asked_is_told_at_its_field(given: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        refresh_images(actor=SYSTEM, **({"registry": "https://x", "presets": ["vllm"]} | given))
    assert [*refused.value.fields] == [next(iter(given))]


def test_only_whoever_may_add_an_image_may_have_a_registry_asked() -> None:
    with pytest.raises(NotAllowed):
        refresh_images(
            actor=of_user(person("vera", speech=Role.VIEWER)), registry="https://x", team=team("speech")
        )


def test_page_rest_and_command_line_read_and_add(
    real: RealRegistry, terminal: Terminal, tmp_path: Path
) -> None:
    real.push(VLLM, "v0.10.2", env=CUDA)
    olga = person("olga", speech=Role.OPERATOR)
    body = {"registry": real.url, "presets": ["vllm"], "team": "speech", "platform": "linux/amd64"}
    browser = Client()
    browser.force_login(olga)
    shown = browser.post("/images/+refresh/", body).content.decode()
    assert "vllm-0.10.2" in shown
    assert 'name="add"' in shown
    (proposed,) = api(olga).post("images/refresh/", body).json()
    assert (proposed["outcome"], proposed["is_added"]) == ("new", False)
    terminal.token = token_of(olga)
    asked = ("images", "refresh", "--registry", real.url, "--preset", "vllm", "--team", "speech")
    assert "new" in terminal(*asked).out
    assert "added" in terminal(*asked, "--add").out
    assert RuntimeImage.objects.get().team == team("speech")
    added = browser.post("/images/+refresh/", body | {"add": "1"}).content.decode()
    assert "/images/vllm-0.10.2/" in added
    failed = terminal("images", "refresh", "--registry", real.url, "--preset", "sglang", "--team", "speech")
    assert failed.status == 1
    assert "no such repository" in failed.err
