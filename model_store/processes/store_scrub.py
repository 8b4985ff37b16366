"""The job that checks the store; see `job_runner`.

It reads every blob, no faster than it is told, and compares it with its name. The next one goes on with the
part of the store in which one was that died.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from model_store.backends.base import PARTS, BlobStore, Staging
from model_store.backends.opening import opened_at
from model_store.processes.job import StagingJob, WholeStore
from model_store.processes.job_runner import work

REPORT_EVERY_SECONDS = 1.0
PLACE = "place"
"""Note of the staging area: how far it is, for the next one to go on from."""


@dataclass(frozen=True, slots=True)
class BlobDamage:
    """A blob whose content is not what its name says, or that cannot be read. `mark`: see `Flaw`."""

    sha256: str
    size: int
    mark: str
    detail: str


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """`place`: how many parts of the store are done; the figures stand for these and for the present one."""

    place: int
    blobs_done: int
    blobs_total: int
    bytes_done: int
    bytes_total: int
    damages: tuple[BlobDamage, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "CheckProgress":
        return cls(**{**data, "damages": tuple(BlobDamage(**one) for one in data["damages"])})


class StoreChecker:
    def __init__(
        self,
        store: BlobStore,
        *,
        bytes_per_second: int,
        report: Callable[[CheckProgress], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._rate = bytes_per_second
        self._report = report
        self._sleep = sleep
        self._began = time.monotonic()
        self._read = 0
        self._reported = self._began

    def run(self, done: CheckProgress | None) -> CheckProgress:
        found_in = dict(self._store.walk())
        sizes = [found_in.get(part, {}) for part in range(PARTS)]
        blobs_total, bytes_total = sum(map(len, sizes)), sum(sum(part.values()) for part in sizes)
        place = first = done.place if done else 0
        damages = list(done.damages) if done else []
        blobs = sum(map(len, sizes[:place]))
        size_bytes = sum(sum(part.values()) for part in sizes[:place])

        def progress() -> CheckProgress:
            return CheckProgress(place, blobs, blobs_total, size_bytes, bytes_total, tuple(damages))

        for place in range(first, PARTS):
            found = []
            for sha256, size in sorted(sizes[place].items()):
                if (damage := self._check(sha256)) is not None:
                    found.append(damage)
                blobs, size_bytes = blobs + 1, size_bytes + size
                if time.monotonic() - self._reported > REPORT_EVERY_SECONDS:
                    self._reported = time.monotonic()
                    self._report(progress())
            damages += found
        return replace(progress(), place=PARTS)

    def _check(self, sha256: str) -> BlobDamage | None:
        flaw = self._store.verify(sha256, counted=self._slow_down)
        return None if flaw is None else BlobDamage(sha256, flaw.size, flaw.mark, flaw.detail)

    def _slow_down(self, read: int) -> None:
        self._read += read
        ahead = self._read / self._rate - (time.monotonic() - self._began)
        if ahead > 0:
            self._sleep(ahead)


def check_job(job: StagingJob, staging: Staging, report: Callable[[CheckProgress], None]) -> CheckProgress:
    assert isinstance(job.source, WholeStore)  # noqa: S101
    store = opened_at(job.store)

    def note(progress: CheckProgress) -> None:
        staging.write_note(PLACE, json.dumps(progress.as_json()).encode())
        report(progress)

    checker = StoreChecker(store, bytes_per_second=job.source.bytes_per_second, report=note)
    found = store.read_note(job.key, PLACE)
    return checker.run(CheckProgress.from_json(json.loads(found)) if found else None)


def main(arguments: list[str]) -> int:
    return work(StagingJob.from_json(arguments[0], WholeStore), check_job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
