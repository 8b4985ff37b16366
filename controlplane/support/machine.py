"""What this machine tells: programs and their versions, processes, disks, logs, the gateway."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson
import psutil
from django.conf import settings

from common.logs import context
from controlplane.support.secrets import Secrets

LOG_BYTES = 512 * 1024
"""Of each file, from its end."""
MOST_LOGS = 60
JOURNAL_LINES = 5_000
WITHIN_SECONDS = 15
OURS = ("controlplane", "serving", "slipway-server", "envoy", "valkey-server", "supervisor", "common.jobs")
"""Words in the command line of a process of ours."""
ENVOY_PATHS = ("config_dump", "clusters", "stats", "server_info", "listeners")


def versions() -> dict[str, Any]:
    packages = sorted(
        f"{one.metadata['Name']}=={one.version}" for one in metadata.distributions() if one.metadata["Name"]
    )
    return {
        "slipway": settings.SLIPWAY_VERSION,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "role": context.role(),
        "packages": packages,
    }


def disks() -> dict[str, Any]:
    home = Path(settings.SLIPWAY_HOME)
    places = {"home": home, "store": Path(settings.SLIPWAY_STORE_DIR), "logs": Path(settings.SLIPWAY_LOG_DIR)}
    found: dict[str, Any] = {}
    for name, path in places.items():
        with suppress(OSError):
            status = os.statvfs(path)
            found[name] = {
                "path": str(path),
                "size_bytes": status.f_blocks * status.f_frsize,
                "free_bytes": status.f_bavail * status.f_frsize,
                "inodes": status.f_files,
                "free_inodes": status.f_favail,
            }
    with suppress(OSError):
        found["files"] = {
            one.name: {"bytes": status.st_size, "mode": oct(status.st_mode), "changed": status.st_mtime}
            for one in sorted(home.iterdir())
            for status in [one.stat()]
        }
    return found


def processes(secrets: Secrets) -> list[dict[str, Any]]:
    """Return the processes of this installation's owner that look like ours."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error), process.oneshot():
            command = process.cmdline()
            if process.uids().real != os.getuid() or not any(word in " ".join(command) for word in OURS):
                continue
            found.append(
                {
                    "pid": process.pid,
                    "parent": process.ppid(),
                    "command": secrets.json(command),
                    "status": process.status(),
                    "started": process.create_time(),
                    "cpu_seconds": sum(process.cpu_times()[:2]),
                    "memory_bytes": process.memory_info().rss,
                    "threads": process.num_threads(),
                    "files": process.num_fds(),
                    "environment": secrets.variables(process.environ()),
                }
            )
    return found


def logs() -> Iterator[tuple[str, bytes]]:
    """The ends of the log files in the home, and of what the units have written to the journal."""
    root = Path(settings.SLIPWAY_LOG_DIR)
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    files.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[:MOST_LOGS]:
        with suppress(OSError):
            yield str(path.relative_to(root)), _end_of(path)
    if journal := shutil.which("journalctl"):
        lines = (journal, "--no-pager", "--unit", "slipway*", "--lines", str(JOURNAL_LINES))
        with suppress(OSError, subprocess.TimeoutExpired):
            told = subprocess.run(lines, capture_output=True, timeout=WITHIN_SECONDS, check=False)
            if told.stdout:
                yield "journal.log", told.stdout[-4 * LOG_BYTES :]


def _end_of(path: Path) -> bytes:
    """Whole lines."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOG_BYTES))
        end = file.read(LOG_BYTES)
    return end if size <= LOG_BYTES else end.partition(b"\n")[2]


def gateway() -> Iterator[tuple[str, Any]]:
    """Yield what Envoy says of itself: parsed JSON, or text. Raises GatewayError."""
    from gateway.backends.envoy.admin import AdminClient
    from gateway.backends.envoy.configured import own_layout

    layout = own_layout()
    for path in ENVOY_PATHS:
        with AdminClient(port=layout.admin_port, node_id=layout.node_id).connected() as connection:
            body = connection.get(f"/{path}")
        try:
            yield f"{path}.json", orjson.loads(body)
        except ValueError:
            yield f"{path}.txt", body.decode(errors="replace")


def shown_settings(secrets: Secrets, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"SLIPWAY_{name.upper()}": secrets.setting(name, value) for name, value in values.items()}
