"""The checks of `slipway-server doctor`."""

import socket
import ssl
import stat
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import redis
from django.conf import settings
from django.db import connection

from common import clock, disk
from common.database.connections import server_connections
from common.disk import DiskState
from common.health import Unhealthy
from common.live.redis import client
from common.pages.formats import byte_size
from common.resealing import dead_secrets
from controlplane.backup.databases import database
from controlplane.backup.errors import BackupError
from controlplane.env import env
from controlplane.environment import PROJECT
from controlplane.health import clocks
from controlplane.readiness_key import HEADER, readiness_key
from controlplane.server.doctor import Check, DoctorProblem, DoctorStatus

WITHIN_SECONDS = 10.0
OLDEST_POSTGRESQL = 14
PROCESSES = 5
"""A web, a sweeper, a worker with two processes: docs/PRODUCTION.md counts them."""
NEARLY_ALL = 0.9
CERTIFICATE_LEFT = timedelta(days=14)
LEAST_KEY = 32
_SECRET_FILES = ("secret-key", "audit-key", "admin-token", "admin-password")
FORGED = "203.0.113.99"
"""An address for documentation: nobody's."""


def check_database() -> str:
    connection.ensure_connection()
    if connection.vendor != "postgresql":
        return "SQLite, for one host"
    version = int(connection.connection.info.server_version) // 10_000
    if version < OLDEST_POSTGRESQL:
        raise DoctorProblem(f"PostgreSQL {version}", f"Upgrade it to {OLDEST_POSTGRESQL} or newer.")
    return f"PostgreSQL {version}"


def check_dump() -> str:
    """Dump the database to a temporary file, as a backup does."""
    source = database()
    try:
        source.check_tools()
        with tempfile.TemporaryDirectory(prefix="slipway-doctor-") as place:
            target, began = Path(place) / source.file, time.monotonic()
            with source.snapshot():
                source.dump(target)
            return f"{byte_size(target.stat().st_size)} in {time.monotonic() - began:.1f} s"
    except BackupError as error:
        raise DoctorProblem(str(error), "Without it `slipway-server backup` fails.") from None


def check_connections() -> str:
    found = server_connections()
    if found is None:
        return "SQLite has none"
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('superuser_reserved_connections')::int")
        (reserved,) = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
        (used,) = cursor.fetchone()
    room, wanted = found.limit - reserved, PROCESSES * env.database_connections
    said = f"{used} of {room} in use"
    if used > NEARLY_ALL * room:
        raise DoctorProblem(said, "Raise max_connections, or end the clients that hold them.")
    if wanted > room:
        raise DoctorProblem(
            f"{said}; one of each role may take {PROCESSES} x {env.database_connections} = {wanted}",
            "Lower SLIPWAY_DATABASE_CONNECTIONS, or raise max_connections.",
            status=DoctorStatus.WARN,
        )
    return said


def check_clock() -> str:
    """Compare the clocks of this host, of the others and of the database."""
    clock.measure()
    try:
        return str(clocks())
    except Unhealthy as problem:
        advice = "Start chrony or systemd-timesyncd there; `timedatectl` shows its state."
        raise DoctorProblem(str(problem.words), advice) from None


def check_redis() -> str:
    with client(settings.REDIS_URL, patience_seconds=WITHIN_SECONDS) as asked:
        try:
            server: Any = asked.info("server")
        except redis.RedisError as error:
            advice = "Look at SLIPWAY_REDIS_URL. Without it pages are not live and steps come later."
            raise DoctorProblem(str(error), advice, status=DoctorStatus.WARN) from None
    return f"version {server.get('valkey_version') or server.get('redis_version')}"


def check_disk() -> str:
    room = disk.room()
    said = f"{byte_size(max(0, room.free))} of {byte_size(room.total)} free in {room.path}"
    if room.state is not DiskState.OK:
        status = DoctorStatus.FAIL if room.is_full else DoctorStatus.WARN
        raise DoctorProblem(said, "Free space, or take a larger disk.", status=status)
    return said


def check_file_rights() -> str:
    """See that nobody else reads what is secret, and that we may write to the home."""
    home = Path(settings.SLIPWAY_HOME)
    secrets = [PROJECT / ".env", *(home / name for name in _SECRET_FILES)]
    open_files = [path for path in secrets if path.exists() and path.stat().st_mode & 0o077]
    if open_files:
        names = " ".join(map(str, open_files))
        raise DoctorProblem(f"Others may read {names}", f"chmod 600 {names}")
    if home.stat().st_mode & stat.S_IWOTH:
        raise DoctorProblem(f"Anybody may write to {home}", f"chmod 700 {home}")
    with tempfile.NamedTemporaryFile(dir=home):
        return f"secrets are their owner's alone; {home} can be written"


def check_keys() -> str:
    keys = {"SLIPWAY_SECRET_KEY": settings.SECRET_KEY, "SLIPWAY_AUDIT_KEY": settings.SLIPWAY_AUDIT_KEY}
    short = [name for name, key in keys.items() if len(key) < LEAST_KEY]
    if short:
        raise DoctorProblem(f"{', '.join(short)}: shorter than {LEAST_KEY} characters", "Make longer ones.")
    if len(set(keys.values())) == 1:
        advice = "Give SLIPWAY_AUDIT_KEY a value of its own: who has one should not have both."
        raise DoctorProblem("Both keys are the same", advice)
    if dead := list(dead_secrets()):
        advice = "`slipway-server reseal` names them; put the former key among the fallbacks."
        raise DoctorProblem(f"{len(dead)} stored secrets are sealed with a key that is not here", advice)
    return "two of their own, and they open every stored secret"


def check_tls() -> str:
    """Ask for the certificate at the public address, as a client with the usual authorities does."""
    address = urlsplit(settings.SLIPWAY_PUBLIC_URL)
    if address.scheme != "https" or not address.hostname:
        raise DoctorProblem(
            "SLIPWAY_PUBLIC_URL is no https address",
            "Set it to the proxy's address.",
            status=DoctorStatus.WARN,
        )
    try:
        with (
            socket.create_connection((address.hostname, address.port or 443), WITHIN_SECONDS) as plain,
            ssl.create_default_context().wrap_socket(plain, server_hostname=address.hostname) as secured,
        ):
            certificate = secured.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        advice = "Send the whole chain. For a private CA: set SLIPWAY_CA_FILE."
        raise DoctorProblem(f"{address.hostname}: {error.verify_message}", advice) from None
    ends = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)
    said = f"{address.hostname}: valid until {ends:%Y-%m-%d}"
    if ends - clock.now() < CERTIFICATE_LEFT:
        raise DoctorProblem(said, "Renew the certificate.", status=DoctorStatus.WARN)
    return said


def check_proxy() -> str:
    """See how a request through the proxy arrives: with the client's address, which it cannot forge."""
    request = urllib.request.Request(  # noqa: S310  # our own address
        f"{settings.SLIPWAY_PUBLIC_URL.rstrip('/')}/readyz",
        headers={HEADER: readiness_key(settings.SECRET_KEY), "X-Forwarded-For": FORGED},
    )
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_SECONDS) as response:  # noqa: S310
            report = orjson.loads(response.read())
    except urllib.error.HTTPError as error:
        report = _report(error)
    except (OSError, ValueError) as error:
        advice = "Start a web and the proxy; look at SLIPWAY_PUBLIC_URL."
        raise DoctorProblem(
            f"{request.full_url} does not answer: {error}", advice, status=DoctorStatus.WARN
        ) from None
    return judge_arrival(report["request"], proxies=env.trusted_proxies)


def _report(error: urllib.error.HTTPError) -> Any:
    try:
        return orjson.loads(error.read())
    except ValueError:
        advice = "No web answers behind the proxy: look at its upstreams."
        raise DoctorProblem(f"The proxy answers {error.code}", advice) from None


def judge_arrival(request: dict[str, Any], *, proxies: Sequence[object]) -> str:
    """`request`: as `/readyz` tells it. Raises DoctorProblem."""
    client = request["client"]
    if client == FORGED:
        advice = "Have it set the header (nginx: `proxy_set_header X-Forwarded-For $remote_addr`)."
        raise DoctorProblem("The proxy passes on the client's own X-Forwarded-For", advice)
    if settings.SLIPWAY_PUBLIC_URL.startswith("https:") and not request["is_secure"]:
        advice = "Have the proxy set X-Forwarded-Proto, and name it in SLIPWAY_TRUSTED_PROXIES."
        raise DoctorProblem("A request over TLS arrives as plain HTTP", advice)
    if not proxies:
        advice = "Set SLIPWAY_TRUSTED_PROXIES, or who guesses passwords locks out everybody."
        raise DoctorProblem(f"Every client seems to be {client}", advice, status=DoctorStatus.WARN)
    return f"this client arrives as {client}"


CHECKS: Sequence[tuple[str, Check]] = (
    ("database", check_database),
    ("dump", check_dump),
    ("connections", check_connections),
    ("clock", check_clock),
    ("redis", check_redis),
    ("disk", check_disk),
    ("file rights", check_file_rights),
    ("keys", check_keys),
    ("certificate", check_tls),
    ("proxy", check_proxy),
)
