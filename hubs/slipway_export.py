"""One export of a version to another Slipway: look, send what it lacks, let it verify. No database in here.

Doing it again makes no second version: the model there is asked first for one of this digest, and an upload
of the same files goes on where it was.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from hubs.backends.base import HubError, HubMisbehaves, HubUnreachable, NoSuchRepository
from hubs.backends.slipway_client import Document, SlipwayClient
from hubs.export_result import CONNECTIONS, ExportResult, ended, hold
from hubs.retry import Retry
from hubs.target import SlipwayTarget
from model_store.backends.base import Staging
from model_store.file_manifest import ManifestFile, manifest_of
from model_store.paths import printable
from models_registry.importing.transfer import ImportProgress, TransferMeter
from slipway.runs import ROUNDS, ContentPart, PartRuns

LARGEST_PART_BYTES = 64 * 1024 * 1024
"""A part is held in memory, one per connection."""
RUN_BYTES = 4 * 1024 * 1024
"""Of the parts that go in one request, where they are smaller and the other one takes several at once."""
LOOK_EVERY_SECONDS = 1.0
_WHOLE = ("ready", "archived")


def export_to_slipway(
    target: SlipwayTarget,
    files: Sequence[ManifestFile],
    there: SlipwayClient,
    staging: Staging,
    *,
    report: Callable[[ImportProgress], None],
) -> ExportResult:
    """Export a version to another Slipway and return the result; only bugs raise."""
    return ended(_Export(target, files, there, staging, report).run)


class _Export:
    def __init__(
        self,
        target: SlipwayTarget,
        files: Sequence[ManifestFile],
        there: SlipwayClient,
        staging: Staging,
        report: Callable[[ImportProgress], None],
    ) -> None:
        self._target = target
        self._files = files
        self._there = there
        self._staging = staging
        self._digest = manifest_of(files).digest
        self._meter = TransferMeter(
            size_bytes=sum(file.size for file in files), files=len(files), report=report
        )
        self._patience = Retry(target.patience_seconds, self._meter.say)
        self._lock = threading.Lock()
        self._sent_bytes = 0

    def run(self) -> ExportResult:
        hold(self._staging, self._files)
        self._meter.count(always=True)
        self._patience.keep(self._prepare)
        version = self._patience.keep(lambda: self._there.version(self._digest))
        if version is not None and (version["state"], version["digest"]) == ("ready", self._digest):
            return ExportResult("sent", commit=_name(version), was_there=True)
        upload = self._patience.keep(self._begin)
        self._meter.find(sum(file.size for file in self._files) - _lacking(upload))
        for _ in range(ROUNDS):
            if not upload["missing"]:
                break
            self._check_wanted(upload)
            number = int(upload["id"])
            runs = PartRuns(upload, limit=RUN_BYTES)
            runs.send(partial(self._send, number), jobs=CONNECTIONS, is_over=threading.Event())
            upload = self._patience.keep(lambda: self._there.upload(int(upload["id"])))  # noqa: B023
        self._meter.count(files=len(self._files), always=True)
        made = self._patience.keep(lambda: self._complete(upload))
        return self._verified(_name(made))

    def _prepare(self) -> None:
        if self._there.exists():
            return
        if not self._target.creates:
            raise NoSuchRepository(
                f"There is no model {self._target.model} on {self._target.endpoint}, or the token does not "
                "open it. The export can create it, if it is told to."
            )
        self._there.create(task=self._target.task)

    def _begin(self) -> Document:
        upload = self._there.begin(self._files, origin=self._target.origin)
        if not isinstance(upload.get("missing"), list) or not isinstance(upload.get("id"), int):
            raise HubMisbehaves(
                f"{self._target.endpoint} does not answer like a Slipway. Check the endpoint."
            )
        if not 1 <= int(upload["part_bytes"]) <= LARGEST_PART_BYTES:
            raise HubMisbehaves(f"{self._target.endpoint} wants parts of {upload['part_bytes']:,} bytes.")
        if not isinstance(upload.get("request_bytes", 1), int):
            raise HubMisbehaves(f"{self._target.endpoint} does not say how much a request may hold.")
        return upload

    def _check_wanted(self, upload: Document) -> None:
        announced = {(file.sha256, file.size) for file in self._files}
        if not {(one["sha256"], one["size"]) for one in upload["missing"]} <= announced:
            raise HubMisbehaves(f"{self._target.endpoint} asks for a content that was not announced.")

    def _send(self, upload_id: int, part: ContentPart) -> None:
        with self._staging.opened(part.sha256) as content:
            body = content.read_at(part.start, part.stop - part.start)
        self._patience.keep(lambda: self._there.send(upload_id, part, body))
        self._patience.renew()
        self._meter.count(len(body))
        self._meter.say("")
        with self._lock:
            self._sent_bytes += len(body)

    def _complete(self, upload: Document) -> Document:
        return self._there.complete(
            int(upload["id"]), message=self._target.message, lineage=dict(self._target.lineage)
        )

    def _verified(self, name: str) -> ExportResult:
        """Wait until the other one has judged what it got, and compare the digest."""
        while True:
            version = self._patience.keep(lambda: self._there.version(name))
            if version is None:
                raise HubMisbehaves(f"{self._target.endpoint} has no version {name} any more.")
            if version["state"] in _WHOLE:
                break
            if version["state"] != "importing":
                why = printable(str(version.get("reason", "")))[:500]
                raise HubError(
                    f"{self._target.endpoint} has taken it as {name} and {version['state']} it: {why}"
                )
            self._patience.renew()
            self._meter.say(f"{name} is being verified there.")
            time.sleep(LOOK_EVERY_SECONDS)
        self._meter.say("")
        if version["digest"] != self._digest:
            raise HubMisbehaves(
                f"{self._target.endpoint} made {name} of it, with another digest ({version['digest'][:12]}…)."
            )
        return ExportResult("sent", commit=name, sent_bytes=self._sent_bytes)


def _lacking(upload: Document) -> int:
    return sum(int(one["size"]) - int(one["received_bytes"]) for one in upload["missing"])


def _name(version: Mapping[str, Any]) -> str:
    name = version.get("name")
    if not isinstance(name, str) or not name or len(name) > 95:
        raise HubUnreachable("The other Slipway does not say which version it made.")
    return name
