import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from common.setting_types import SecretPart
from controlplane import env as environment
from controlplane.environment import PROJECT, Environment, variable

pytestmark = pytest.mark.process

ENTRY_POINTS = {
    "manage.py": ("manage.py", "check"),
    "bin/up": ("-m", "controlplane.embedded"),
    "web": ("-m", "controlplane.server", "web"),
    "worker": ("-m", "controlplane.server", "worker"),
}


def start(tmp_path: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SLIPWAY_")}
    environ |= {"SLIPWAY_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env=environ | settings,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_a_malformed_setting_stops_every_entry_point_with_one_line(tmp_path: Path, name: str) -> None:
    ended = start(tmp_path, *ENTRY_POINTS[name], SLIPWAY_PORT="eighty")

    assert ended.returncode == 2
    assert ended.stderr.startswith("SLIPWAY_PORT: ")
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


def test_production_names_each_setting_that_it_misses(tmp_path: Path) -> None:
    ended = start(tmp_path, "manage.py", "check", DJANGO_SETTINGS_MODULE="controlplane.settings.production")

    assert ended.returncode == 2
    assert [line.split()[0] for line in ended.stderr.splitlines()] == [
        "SLIPWAY_SECRET_KEY",
        "SLIPWAY_AUDIT_KEY",
        "SLIPWAY_DATABASE_URL",
        "SLIPWAY_REDIS_URL",
    ]


def test_production_starts_with_its_settings(tmp_path: Path) -> None:
    ended = start(
        tmp_path,
        *("manage.py", "check"),
        DJANGO_SETTINGS_MODULE="controlplane.settings.production",
        SLIPWAY_SECRET_KEY="s" * 32,
        SLIPWAY_AUDIT_KEY="a" * 32,
        SLIPWAY_DATABASE_URL="postgresql://slipway:pw@127.0.0.1/slipway",
        SLIPWAY_REDIS_URL="redis://127.0.0.1:6379/0",
    )

    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "secret-key").exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("home", "/tmp/a[b]", "must not contain"),
        ("home", "/tmp/" + "h" * 120, "too long for the unix sockets"),
        ("bind", "localhost", "does not appear to be an IPv4 or IPv6 address"),
        ("port", "0", "greater than or equal to 1"),
        ("gateway_port", "8000", "SLIPWAY_GATEWAY_PORT and SLIPWAY_PORT are both 8000"),
        ("port", "21500", "lies in the range of SLIPWAY_WORKER_PORTS"),
        ("worker_ports", "5-3", "must be first-last"),
        ("worker_ports", "1-70000", "must be first-last"),
        ("import_roots", "data:/srv", "data is not an absolute path"),
        ("signing_key", "key.pem", "key.pem is not an absolute path"),
        ("signing_command", "kms 'sign", "No closing quotation"),
        ("signing_command", "kms sign", "SLIPWAY_SIGNING_PUBLIC_KEY: must be set while"),
        ("store", "s3://No", "must be s3://bucket or s3://bucket/prefix"),
        ("store_endpoint", "s3.internal", "must start with http://"),
        ("secret_key", "short", "at least 32 characters"),
        ("database_url", "mysql://host/name", "must start with postgresql://"),
        ("database_url", "postgresql://host:port/name", "has a port that is no number"),
        ("database_url", "postgresql://a:b%zz@host/name", "is no URL of PostgreSQL"),
        ("redis_url", "redis://", "names no host"),
        ("redis_url", "sentinel://one:26379,two/0", "?master=NAME"),
        ("redis_url", "sentinel://one:port/0?master=slipway", "one:port is no host"),
        ("public_url", "slipway.example.org", "must start with http://"),
        ("https", "perhaps", "valid boolean"),
        ("https", "true", "SLIPWAY_TRUSTED_PROXIES: must name who ends TLS"),
        ("trusted_proxies", "10.0.0.0/33", "does not appear to be an IPv4 or IPv6 network"),
        ("database_connections", "3", "greater than or equal to 12"),
        ("keep_syncs_days", "-1", "greater than or equal to 0"),
        ("keep_answers_days", "1.5", "valid integer"),
        ("log_level", "LOUD", "'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(variable(name), value)

    with pytest.raises(SystemExit) as ended:
        environment.read()

    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert variable(name) in said
    assert words in said
    assert said.count("\n") == 1


def test_a_settings_file_that_is_no_text_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    faulty = tmp_path / ".env"
    faulty.write_bytes(b"\xff\xfe")
    monkeypatch.setitem(Environment.model_config, "env_file", faulty)

    with pytest.raises(SystemExit) as ended:
        environment.read()

    assert ended.value.code == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("10.1.2.3", "http://10.1.2.3:8000"),
    ],
)
def test_a_local_address_is_one_that_can_be_opened(
    monkeypatch: pytest.MonkeyPatch, bind: str, url: str
) -> None:
    monkeypatch.setenv("SLIPWAY_BIND", bind)

    assert environment.read().local_url(8000) == url


def test_a_variable_that_is_nearly_a_setting_is_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_GATEWAY_PROT", "9000")
    monkeypatch.setenv("SLIPWAY_TOKEN", "the client's own")

    hints = environment.misspelt_settings()

    (hint,) = hints
    assert hint.startswith("SLIPWAY_GATEWAY_PROT is no setting")
    assert hint.endswith("Did you mean SLIPWAY_GATEWAY_PORT?")


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("DJANGO_SETTINGS_MODULE=controlplane.settings.production", "runs with the settings for production"),
        ("SLIPWAY_DATABSE_URL=postgresql://host/name", "Did you mean SLIPWAY_DATABASE_URL?"),
        ("AWS_PROFILE=models", "set it in the process's environment"),
    ],
)
def test_a_line_of_the_file_that_would_do_nothing_is_refused_by_its_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    advice: str,
) -> None:
    file = tmp_path / ".env"
    file.write_text(f"SLIPWAY_PORT=8000\n{line}\n")
    monkeypatch.setattr(environment, "ENV_FILE", file)

    with pytest.raises(SystemExit) as ended:
        environment.read()

    assert ended.value.code == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert line.partition("=")[0] in said
    assert advice in said


def test_what_is_named_like_a_secret_is_of_a_kind_that_hides() -> None:
    """Nobody remembers the marking by hand; and a setting is hidden by its kind, not by its name."""
    named = {
        name
        for name in Environment.model_fields
        if re.search(r"secret|password|token|audit_key|credential", name) and name != "password_login"
    }
    hidden = {name for name, field in Environment.model_fields.items() if SecretPart.ALL in field.metadata}
    assert named == hidden


def test_the_secrets_of_the_settings_are_their_keys_and_the_passwords_in_their_urls() -> None:
    settings = Environment(
        secret_key="s" * 40,
        audit_key_fallbacks=("former-audit-key",),
        database_url="postgresql://slipway:p%40ss@db/slipway",
        redis_url="redis://:in-redis@r/0",
        hub_endpoints=("https://me:in-hub@hub.example",),
        oidc_client_secret="of-the-client",
        public_url="https://slipway.example.org",
    )
    assert environment.secrets_of(settings) == {
        *("s" * 40, "former-audit-key", "p%40ss", "p@ss", "in-redis", "in-hub", "of-the-client")
    }


def test_traces_without_their_packages_or_to_no_address_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "OTEL_EXPORTER_OTLP_ENDPOINT"
    monkeypatch.delenv(name, raising=False)
    assert environment.otlp_traces() == ""
    monkeypatch.setenv(name, "http://collector:4318/")
    assert environment.otlp_traces() == "http://collector:4318/v1/traces"
    monkeypatch.setattr(environment, "find_spec", lambda _: None)
    with pytest.raises(SystemExit):
        environment.otlp_traces()
    assert "install slipway[otel]" in capsys.readouterr().err
    monkeypatch.setenv(name, "collector:4318")
    with pytest.raises(SystemExit):
        environment.otlp_traces()
    assert "must start with http:// or https://" in capsys.readouterr().err
