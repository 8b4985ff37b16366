"""The embedded backend as a row configures it, with the files of the registry."""

import re
from pathlib import Path
from typing import Any

from django.conf import settings

from clusters.backends.base import (
    CannotRun,
    ClusterConfig,
    FilesFetch,
    FilesPending,
    Misconfigured,
    ModelVersion,
)
from clusters.backends.embedded.backend import ENVIRONMENTS, EmbeddedCluster
from clusters.backends.embedded.machine import machine_name
from common.errors import SlipwayError
from models_registry.errors import FilesUnderWay
from models_registry.files import materialise
from models_registry.models import Version

_DIRECTORY = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})")


def connect(config: ClusterConfig) -> EmbeddedCluster:
    """The data plane of the stack; with the setting `directory` one beside it, that of a supervisord of its
    own under that name. `ports` are those that its workers may have, `21000-21099`."""
    if unknown := sorted(config.settings.keys() - {"directory", "ports"}):
        raise Misconfigured(f"An embedded cluster has no setting {unknown[0]}; it has directory and ports.")
    beside = _directory(config.settings.get("directory", ""))
    return EmbeddedCluster(
        run_dir=settings.SLIPWAY_RUN_DIR.joinpath(*beside),
        log_dir=settings.SLIPWAY_LOG_DIR.joinpath(*beside),
        ports=_ports(config.settings.get("ports", "")) or settings.SLIPWAY_WORKER_PORTS,
        directory=settings.BASE_DIR,
        bring_files=laid_out,
        environments=settings.SLIPWAY_RUN_DIR.parent / ENVIRONMENTS,
    )


def laid_out(version: ModelVersion) -> Path:
    """The directory of a version in the store of this machine. Raises FilesPending, CannotRun."""
    row = Version.objects.select_related("model").filter(pk=version.id).first()
    if row is None:
        raise CannotRun(f"The registry has no version {version.label} any more.")
    try:
        return materialise(row)
    except FilesUnderWay as error:
        come = FilesFetch(place=machine_name(), come_bytes=error.come_bytes, size_bytes=error.size_bytes)
        raise FilesPending(str(error), (come,)) from None
    except SlipwayError as error:
        raise CannotRun(str(error)) from None


def _directory(value: Any) -> tuple[str, ...]:
    if value == "":
        return ()
    if not isinstance(value, str) or not _DIRECTORY.fullmatch(value):
        raise Misconfigured("directory: give a short name in lower-case letters, digits and hyphens.")
    return ("clusters", value)


def _ports(value: Any) -> tuple[int, int] | None:
    if value == "":
        return None
    found = _PORTS.fullmatch(value) if isinstance(value, str) else None
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1024 <= first <= last <= 65_535:
        raise Misconfigured("ports: give the first and last, from 1024 to 65535, such as 21000-21099.")
    return first, last
