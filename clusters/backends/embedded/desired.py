"""The desired state of the embedded cluster, one file per deployment: it outlives every process."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from clusters.backends.base import (
    NAME,
    ClusterUnreachable,
    DeploymentSpec,
    ModelVersion,
)
from clusters.backends.placement import Placement, Resources, Spread, TaintEffect, Toleration
from common import files
from common.fence import Fence

T = TypeVar("T")

LOCK_WITHIN_SECONDS = 5.0
TOMBSTONES_LAST_SECONDS = 86_400.0
"""A removed deployment's fence is kept this long: far longer than any lease of the reconcile kernel."""


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """State of one worker that outlasts its restarts."""

    port: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DesiredDeployment:
    spec: DeploymentSpec
    fence: Fence
    slots: dict[int, WorkerSlot] = field(default_factory=dict)
    """By ordinal; those of workers that still drain are among them."""
    model_dir: Path = Path()
    """Where the version's files lie on this machine."""
    removed_at: float | None = None
    """Unix time; its workers are to end, and its fence to be remembered."""

    @property
    def ordinals(self) -> range:
        return range(0 if self.removed_at is not None else self.spec.replicas)


class DesiredStore:
    """Files, one per deployment. Read them at any time; change them under `lock()`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the store for one writer of all processes. Raises ClusterUnreachable when it takes too
        long.
        """
        try:
            with files.held(self._directory / "lock", within_seconds=LOCK_WITHIN_SECONDS):
                yield
        except files.FileBusy:
            raise ClusterUnreachable("Another change of the cluster takes too long.") from None

    def load(self, deployment: str) -> DesiredDeployment | None:
        try:
            return _desired_of(json.loads(self._file(deployment).read_bytes()))
        except FileNotFoundError:
            return None

    def load_all(self) -> list[DesiredDeployment]:
        names = sorted(path.stem for path in self._directory.glob("*.json"))
        return [desired for name in names if (desired := self.load(name)) is not None]

    def save(self, desired: DesiredDeployment) -> None:
        files.replace(self._file(desired.spec.name), json.dumps(_document(desired)).encode())

    def forget_old(self, *, now: float) -> None:
        """Drop what was removed so long ago that no writer can still have an older fence."""
        for desired in self.load_all():
            if desired.removed_at is not None and now - desired.removed_at > TOMBSTONES_LAST_SECONDS:
                self._file(desired.spec.name).unlink()

    def last_port(self) -> int:
        """The port that was given out last; 0 when none was."""
        try:
            return int((self._directory / "last-port").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def note_port(self, port: int) -> None:
        (self._directory / "last-port").write_text(str(port))

    def _file(self, deployment: str) -> Path:
        if not NAME.fullmatch(deployment):
            raise ValueError(f"{deployment!r} cannot name a deployment")
        return self._directory / f"{deployment}.json"


def _document(desired: DesiredDeployment) -> dict[str, Any]:
    """All that a restart needs: files of versions are laid out already, adapters have a file of their own."""
    spec = dataclasses.asdict(
        replace(desired.spec, version=replace(desired.spec.version, files=()), adapters={})
    )
    slots = {str(ordinal): dataclasses.asdict(slot) for ordinal, slot in desired.slots.items()}
    return {
        "spec": spec,
        "fence": desired.fence,
        "slots": slots,
        "model_dir": str(desired.model_dir),
        "removed_at": desired.removed_at,
    }


def _desired_of(document: dict[str, Any]) -> DesiredDeployment:
    spec = document["spec"]
    placement = spec["placement"] | {
        "tolerations": tuple(
            _made(Toleration, one | {"effect": TaintEffect(one["effect"]) if one["effect"] else None})
            for one in spec["placement"]["tolerations"]
        ),
        "spread": tuple(_made(Spread, one) for one in spec["placement"]["spread"]),
        "image_pull_secrets": tuple(spec["placement"]["image_pull_secrets"]),
    }
    parts = {
        "version": _made(ModelVersion, spec["version"] | {"files": ()}),
        "resources": _made(Resources, spec["resources"]),
        "placement": _made(Placement, placement),
    }
    return DesiredDeployment(
        spec=_made(DeploymentSpec, spec | parts),
        fence=Fence(*document["fence"]),
        slots={
            int(ordinal): WorkerSlot(slot["port"], tuple(slot["gpus"]))
            for ordinal, slot in document["slots"].items()
        },
        model_dir=Path(document["model_dir"]),
        removed_at=document["removed_at"],
    )


def _made(kind: type[T], values: dict[str, Any]) -> T:
    """Make it without fields that this release does not know: another one may have written them."""
    known = {option.name for option in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in known})
