"""Puts the bundle together: each part by itself, so that what is away costs only its own part."""

import io
import json
import logging
import os
import socket
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.errors import SlipwayError
from controlplane.env import env
from controlplane.environment import Environment
from controlplane.health import parts_health
from controlplane.readiness import readiness
from controlplane.server.health_check import problems_of_roles
from controlplane.support import machine, rows
from controlplane.support.secrets import Secrets, known_secrets

logger = logging.getLogger(__name__)

Files = Iterable[tuple[str, Any]]
"""Names, and what is in them: bytes or text, else JSON."""


class CannotBundle(SlipwayError):
    """The bundle cannot be written; the message says what to do."""


@dataclass(slots=True)
class SupportBundle:
    """The bundle that was written."""

    path: Path
    files: int = 0
    problems: list[str] = field(default_factory=list)
    """A line for each part that is missing."""


def write_bundle(path: Path) -> SupportBundle:
    """Raises CannotBundle. The file is its owner's alone, and there whole or not at all."""
    if path.exists():
        raise CannotBundle(f"{path} exists. Name another file.")
    values, problems = known_secrets()
    secrets, bundle = Secrets(values), SupportBundle(path, problems=problems)
    top = f"slipway-{socket.gethostname()}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        with tempfile.NamedTemporaryFile(dir=path.absolute().parent, prefix=".bundle-") as file:
            with tarfile.open(fileobj=file, mode="w:gz") as archive:
                for name, content in _all_files(secrets, bundle):
                    _add(archive, f"{top}/{name}", secrets.nowhere_in(_written(content, secrets)))
                    bundle.files += 1
            file.flush()
            os.link(file.name, path)
    except OSError as error:
        raise CannotBundle(f"{path} cannot be written ({error.strerror}). Name another file.") from None
    return bundle


def _all_files(secrets: Secrets, bundle: SupportBundle) -> Iterator[tuple[str, Any]]:
    for name, gather in _parts(secrets).items():
        try:
            yield from gather()
        except Exception as error:
            # Whatever is wrong here is what the bundle is for.
            reason = secrets.text(f"{type(error).__name__}: {str(error).strip()}")
            logger.debug("The part %s of the bundle is missing", name, exc_info=True)
            bundle.problems.append(f"{name} is missing: {reason}")
    yield "problems.txt", "\n".join(bundle.problems) or "None: every part is here."


def _parts(secrets: Secrets) -> Mapping[str, Callable[[], Files]]:
    def only(name: str, read: Callable[[], Any]) -> Callable[[], Files]:
        return lambda: ((name, read()) for _ in range(1))

    return {
        "versions": only("versions.json", machine.versions),
        "settings": only("settings.json", lambda: machine.shown_settings(secrets, _settings())),
        "health": only("health.json", lambda: readiness(parts_health(), with_details=True)),
        "roles": only("roles.json", problems_of_roles),
        "database": only("database.json", rows.server),
        "rows": only("rows.json", rows.summary),
        "rows in trouble": only("rows-in-trouble.json", rows.in_trouble),
        "tables": only("tables.json", rows.counts),
        "migrations": only("migrations.json", rows.migrations),
        "disks": only("disks.json", machine.disks),
        "processes": only("processes.json", lambda: machine.processes(secrets)),
        "gateway": lambda: ((f"gateway/{name}", content) for name, content in machine.gateway()),
        "logs": lambda: ((f"logs/{name}", content) for name, content in machine.logs()),
    }


def _settings() -> dict[str, Any]:
    return {name: getattr(env, name) for name in Environment.model_fields}


def _written(content: Any, secrets: Secrets) -> bytes:
    if isinstance(content, bytes):
        content = content.decode(errors="replace")
    if isinstance(content, str):
        return "\n".join(_line(line, secrets) for line in content.split("\n")).encode()
    return json.dumps(secrets.json(content), indent=1, ensure_ascii=False).encode()


def _line(line: str, secrets: Secrets) -> str:
    """Redact a line of a log: one that is JSON stays so."""
    if line.startswith("{"):
        with suppress(ValueError):
            return json.dumps(secrets.json(json.loads(line)), ensure_ascii=False)
    return secrets.text(line)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(content), 0o600, int(time.time())
    archive.addfile(entry, io.BytesIO(content))
