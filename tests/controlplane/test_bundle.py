"""The support bundle holds what is needed to help, of known secrets none, and what it lacks it says."""

import json
import logging
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import DatabaseError
from django.utils import timezone

from accounts.models import WebhookEndpoint
from accounts.services.webhooks import PURPOSE
from clusters.backends.configured import SECRETS_PURPOSE
from clusters.models import Cluster
from common.health import HealthProbe
from common.models import Intent
from common.sealed import seal
from controlplane import health
from controlplane.environment import Environment
from controlplane.support import bundle, secrets
from controlplane.support.bundle import CannotBundle, write_bundle
from gateway.backends.envoy.configured import own_layout
from releases.models import Release
from tests.accounts.rights_matrix import Scene
from tests.cast import token_of
from tests.http_server import http_server

pytestmark = pytest.mark.django_db

PLANTED = {
    "secret key": "planted-secret-key-" + "s" * 20,
    "audit key": "planted-audit-key-" + "a" * 20,
    "database password": "planted-db/p@ss",
    "redis password": "planted-in-redis",
    "hub password": "planted-of-the-hub",
    "client secret": "planted-oidc",
    "webhook key": "planted+webhook/key==",
    "cluster token": 'planted"cluster\\token',
    "admin password": "planted-admin-password",
    "node token": "planted-node-token",
    "variable of another program": "planted-otlp-header",
    "bucket's key": "planted-bucket-key",
    "session": "plantedsession0123456789",
    "query": "planted-query",
}


@pytest.fixture
def home(tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation that has each of them somewhere, and has let each of them slip into a log."""
    settings.SLIPWAY_HOME, settings.SLIPWAY_LOG_DIR = tmp_path, tmp_path / "logs"
    settings.SLIPWAY_IMPORT_ROOTS = (tmp_path,)
    settings.SECRET_KEY, settings.SLIPWAY_AUDIT_KEY = PLANTED["secret key"], PLANTED["audit key"]
    planted = Environment(
        secret_key=PLANTED["secret key"],
        audit_key=PLANTED["audit key"],
        database_url=f"postgresql://slipway:{quote(PLANTED['database password'], safe='')}@db/slipway",
        redis_url=f"redis://:{PLANTED['redis password']}@redis/0",
        hub_endpoints=(f"https://me:{PLANTED['hub password']}@hub.example",),
        oidc_client_secret=PLANTED["client secret"],
    )
    for module in (bundle, secrets):
        monkeypatch.setattr(module, "env", planted)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PLANTED["bucket's key"])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api={PLANTED['variable of another program']}")
    probes = (HealthProbe("database", lambda: "sqlite", vital=True),)
    monkeypatch.setattr(health.parts_health, "__defaults__", (probes,))
    (tmp_path / "run").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "admin-password").write_text(PLANTED["admin password"] + "\n")
    (tmp_path / "run" / "node-token").write_text(PLANTED["node token"])
    WebhookEndpoint.objects.create(
        url="https://hooks.example", sealed_secret=seal(PLANTED["webhook key"], purpose=PURPOSE)
    )
    sealed = {"token": seal(PLANTED["cluster token"], purpose=SECRETS_PURPOSE)}
    Cluster.objects.create(name="far", sealed_secrets=sealed)
    return tmp_path


@pytest.fixture
def child() -> Iterator[None]:
    """A process that looks like one of ours, with a secret in its command and in its environment."""
    code = "import sys; print(flush=True); sys.stdin.read()  # controlplane"
    argv = [sys.executable, "-c", code, f"--password={PLANTED['admin password']}"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield
    process.kill()
    process.communicate()


def careless_lines(token: str) -> list[str]:
    """Each secret as it might come to be written."""
    said = [f"careless: {value}" for name, value in PLANTED.items() if name not in ("session", "query")]
    said += [json.dumps({"message": f"said {value}", "n": 1}) for value in PLANTED.values() if "key" in value]
    said += [f"Cookie: sessionid={PLANTED['session']}", f"GET /x/?signature={PLANTED['query']} 200"]
    return [*said, f"used {token}", f"postgresql://u:{PLANTED['node token']}@db/x", "the harmless end"]


def files_of(path: Path) -> dict[str, bytes]:
    """Without the directory they are in."""
    with tarfile.open(path) as archive:
        members = [(member, archive.extractfile(member)) for member in archive]
        return {member.name.partition("/")[2]: file.read() for member, file in members if file is not None}


def test_no_secret_of_the_installation_is_in_the_bundle_and_what_helps_is(
    home: Path, child: None, settings, tmp_path: Path
) -> None:
    scene = Scene.of_superuser()
    token = token_of(scene.user)
    (home / "logs" / "web.log").write_text("\n".join(careless_lines(token)))
    release = scene.release
    stuck = {"stuck_at": timezone.now(), "failed_since": timezone.now() - timedelta(hours=1)}
    error = f"The hub said no to {PLANTED['cluster token']}."
    Release.objects.filter(pk=release.pk).update(**stuck, last_error=error)
    Intent.objects.create(
        op_key="1", kind="releases.release", object_id=str(release.pk), step="deploy", fence=1,
        intended_at=timezone.now(), wanted={"token": "unknown-but-named", "url": f"x?key={PLANTED['query']}"},
    )  # fmt: skip
    with envoy(settings, {"route": {"exact": PLANTED["webhook key"]}, "listener": "slipway"}):
        written = write_bundle(tmp_path / "bundle.tar.gz")
    files = files_of(written.path)

    secret = token.rsplit("_", 1)[1]
    for name, content in files.items():
        for what, value in {**PLANTED, "API token": secret, "named": "unknown-but-named"}.items():
            for form in {value, json.dumps(value)[1:-1], quote(value, safe="")}:
                assert form.encode() not in content, f"{what} in {name}"
    assert written.problems == []
    assert oct(written.path.stat().st_mode & 0o777) == "0o600"
    rows = json.loads(files["rows-in-trouble.json"])
    (row,) = [row for row in rows if row["kind"] == "releases.release"]
    assert (row["kind"], row["id"], row["last_error"]) == (
        *("releases.release", release.pk),
        "The hub said no to ***.",
    )
    assert row["journal"][0]["step"] == "deploy"
    assert json.loads(files["tables.json"])["releases_release"] == 1
    assert set(json.loads(files["migrations.json"])) == {"applied", "missing"}
    assert json.loads(files["gateway/config_dump.json"])["listener"] == "slipway"
    shown = json.loads(files["settings.json"])
    assert (shown["SLIPWAY_PORT"], shown["SLIPWAY_SECRET_KEY"]) == (8000, "***")
    assert shown["SLIPWAY_DATABASE_URL"] == "postgresql://slipway:***@db/slipway"
    assert "Django==" in files["versions.json"].decode()
    lines = files["logs/web.log"].decode().splitlines()
    assert lines[-1] == "the harmless end"
    assert len(lines) == len(careless_lines(token))
    assert '"n": 1' in files["logs/web.log"].decode()
    ours = [one for one in json.loads(files["processes.json"]) if "sys.stdin.read" in str(one["command"])]
    assert [one["environment"]["AWS_SECRET_ACCESS_KEY"] for one in ours] == ["***"]


def envoy(settings, dump: dict[str, object]):
    """Something that answers as Envoy's admin endpoint does."""

    class Admin(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(dump).encode() if "config_dump" in self.path else b"server.live: 1"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Answering:
        def __enter__(self) -> None:
            self._server = http_server(Admin)
            settings.SLIPWAY_GATEWAY_ADMIN_PORT = int(self._server.__enter__().rpartition(":")[2])
            assert own_layout().admin_port == settings.SLIPWAY_GATEWAY_ADMIN_PORT

        def __exit__(self, *_: object) -> None:
            self._server.__exit__(None, None, None)

    return Answering()


def test_what_is_away_is_named_and_costs_only_its_own_part(
    home: Path, settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)

    def away(*_: object, **__: object) -> object:
        raise DatabaseError(f"no server at {PLANTED['database password']}")

    for name in ("server", "summary", "in_trouble", "counts", "migrations"):
        monkeypatch.setattr(bundle.rows, name, away)
    monkeypatch.setattr(secrets, "_from_database", away)
    settings.SLIPWAY_GATEWAY_ADMIN_PORT = 1
    (home / "logs" / "web.log").write_text("still here\n")
    written = write_bundle(tmp_path / "bundle.tar.gz")
    files = files_of(written.path)
    assert files["logs/web.log"] == b"still here\n"
    assert {"versions.json", "settings.json", "health.json", "disks.json", "problems.txt"} <= set(files)
    said = files["problems.txt"].decode()
    for part in ("database", "rows", "rows in trouble", "tables", "migrations", "gateway"):
        assert f"{part} is missing: " in said
    assert "Look through the logs" in said
    assert PLANTED["database password"] not in said


def test_a_log_is_bounded_and_begins_with_a_whole_line(home: Path, tmp_path: Path) -> None:
    (home / "logs" / "web.log").write_text(
        "".join(f"{number:09d} a line of the log\n" for number in range(40_000))
    )
    files = files_of(write_bundle(tmp_path / "bundle.tar.gz").path)
    lines = files["logs/web.log"].decode().splitlines()
    assert len(files["logs/web.log"]) <= 512 * 1024
    assert all(line.endswith("a line of the log") and len(line) == len(lines[0]) for line in lines)
    assert lines[-1].startswith("000039999")


def test_a_file_that_is_there_is_not_overwritten(home: Path, tmp_path: Path) -> None:
    (tmp_path / "bundle.tar.gz").write_text("mine")
    with pytest.raises(CannotBundle, match="exists"):
        write_bundle(tmp_path / "bundle.tar.gz")
    with pytest.raises(CannotBundle, match="cannot be written"):
        write_bundle(tmp_path / "nowhere" / "bundle.tar.gz")
    assert (tmp_path / "bundle.tar.gz").read_text() == "mine"
