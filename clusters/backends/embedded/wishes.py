"""What was asked of the embedded cluster, one file per deployment: it outlives every process."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusters.backends.base import NAME, ClusterUnreachable, DeploymentSpec, Fence
from common import files

LOCK_WITHIN_SECONDS = 5.0
TOMBSTONES_LAST_SECONDS = 86_400.0
"""A removed deployment's fence is kept this long: far longer than any lease of the reconcile kernel."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What one worker keeps across restarts."""

    port: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    spec: DeploymentSpec
    fence: Fence
    seats: dict[int, Seat] = field(default_factory=dict)
    """By ordinal; those of workers that still drain are among them."""
    removed_at: float | None = None
    """Unix time; its workers are to end, and its fence to be remembered."""

    @property
    def ordinals(self) -> range:
        """Of the workers that there should be."""
        return range(0 if self.removed_at is not None else self.spec.replicas)


class Wishes:
    """The files. Read them at any time; change them under `lock()`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One writer at a time, of all processes. Raises ClusterUnreachable when it takes too long."""
        try:
            with files.held(self._directory / "lock", within_seconds=LOCK_WITHIN_SECONDS):
                yield
        except files.FileBusy:
            raise ClusterUnreachable("Another change of the cluster takes too long.") from None

    def load(self, deployment: str) -> Wish | None:
        try:
            return _wish_of(json.loads(self._file(deployment).read_bytes()))
        except FileNotFoundError:
            return None

    def load_all(self) -> list[Wish]:
        names = sorted(path.stem for path in self._directory.glob("*.json"))
        return [wish for name in names if (wish := self.load(name)) is not None]

    def save(self, wish: Wish) -> None:
        files.replace(self._file(wish.spec.name), json.dumps(_document(wish)).encode())

    def forget_old(self, *, now: float) -> None:
        """Drop what was removed so long ago that no writer can still have an older fence."""
        for wish in self.load_all():
            if wish.removed_at is not None and now - wish.removed_at > TOMBSTONES_LAST_SECONDS:
                self._file(wish.spec.name).unlink()

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


def _document(wish: Wish) -> dict[str, Any]:
    spec = {option.name: getattr(wish.spec, option.name) for option in dataclasses.fields(DeploymentSpec)}
    spec |= {"model_dir": str(wish.spec.model_dir), "settings": dict(wish.spec.settings)}
    seats = {str(ordinal): dataclasses.asdict(seat) for ordinal, seat in wish.seats.items()}
    return {"spec": spec, "fence": wish.fence, "seats": seats, "removed_at": wish.removed_at}


def _wish_of(document: dict[str, Any]) -> Wish:
    known = {
        option.name for option in dataclasses.fields(DeploymentSpec)
    }  # another release may have written it
    spec = {name: value for name, value in document["spec"].items() if name in known}
    spec["model_dir"] = Path(spec["model_dir"])
    return Wish(
        spec=DeploymentSpec(**spec),
        fence=Fence(*document["fence"]),
        seats={
            int(ordinal): Seat(seat["port"], tuple(seat["gpus"]))
            for ordinal, seat in document["seats"].items()
        },
        removed_at=document["removed_at"],
    )
