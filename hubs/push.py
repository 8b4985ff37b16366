"""One export to a repository: look, send what is missing there, commit once. No database in here.

Doing it again makes no second commit: first it is looked whether the branch holds the files, or a commit with
our marker. What a commit holds is read back and compared before it counts.
"""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from hubs.backends.base import (
    HubError,
    HubFile,
    HubMisbehaves,
    HubUnreachable,
    NoSuchRepository,
    NoSuchRevision,
    Snapshot,
)
from hubs.backends.repository import AddressExpired, LargeFileUpload, Repository
from hubs.export_result import CONNECTIONS, ExportResult, ended, hold
from hubs.retry import Retry
from hubs.target import RepositoryTarget
from model_store.backends.base import Staging
from model_store.backends.ingest import blob_id_of
from model_store.file_manifest import ManifestFile
from model_store.paths import printable
from model_store.reading import Content
from models_registry.importing.transfer import ImportProgress, TransferMeter, side_by_side

CHUNK_BYTES = 1024 * 1024
MAX_INSIDE_BYTES = 64 * 1024 * 1024
"""Of small files, which go inside the commit."""
ADDRESSES_ASKED = 3
"""For one file: each may expire while a long one is sent."""

T = TypeVar("T")
ReadNote = Callable[[str], bytes | None]


def push_version(
    target: RepositoryTarget,
    files: Sequence[ManifestFile],
    repository: Repository,
    staging: Staging,
    *,
    read_note: ReadNote,
    report: Callable[[ImportProgress], None],
) -> ExportResult:
    """Push a version and return the result; only bugs raise. `read_note` reads the staging area's notes."""
    return ended(_Push(target, files, repository, staging, read_note, report).run)


class _Push:
    def __init__(
        self,
        target: RepositoryTarget,
        files: Sequence[ManifestFile],
        repository: Repository,
        staging: Staging,
        read_note: ReadNote,
        report: Callable[[ImportProgress], None],
    ) -> None:
        self._target = target
        self._files = files
        self._repository = repository
        self._staging = staging
        self._read_note = read_note
        self._meter = TransferMeter(
            size_bytes=sum(file.size for file in files), files=len(files), report=report
        )
        self._patience = Retry(target.patience_seconds, self._meter.say)
        self._lock = threading.Lock()
        self._sent_bytes = 0
        self._may_have_arrived = False

    def run(self) -> ExportResult:
        hold(self._staging, self._files)
        self._meter.count(always=True)
        head = self._patience.keep(self._head)
        if head is not None and (commit := self._patience.keep(lambda: self._arrived(head))):
            return replace(self._sent(commit), was_there=True)
        large = self._patience.keep(self._large_ones)
        self._send([file for file in self._files if file.path in large])
        commit = self._commit(head.commit if head else "", large)
        return self._sent(commit)

    def _sent(self, commit: str) -> ExportResult:
        self._patience.keep(lambda: self._verify(commit))
        self._meter.say("")
        self._meter.count(always=True)
        return ExportResult("sent", commit=commit, sent_bytes=self._sent_bytes)

    def _head(self) -> Snapshot | None:
        """The branch as it is; None: the repository has no commit yet."""
        try:
            return self._repository.at()
        except NoSuchRepository as error:
            if not self._target.creates:
                raise NoSuchRepository(f"{error} The export can create it, if it is told to.") from None
            self._repository.create(is_private=self._target.is_private)
        except NoSuchRevision as error:
            if not self._target.creates:
                raise NoSuchRevision(f"{error} The export can create it, if it is told to.") from None
            if self._target.branch == "main":
                return None
            self._repository.create_branch()
        try:
            return self._repository.at()
        except NoSuchRevision as error:
            if self._target.branch != "main":
                self._repository.create_branch()
                raise HubUnreachable(f"{error} It has just been made.") from None
            return None
        except NoSuchRepository as error:
            raise HubUnreachable(f"{error} It has just been made.") from None

    def _arrived(self, head: Snapshot) -> str:
        """The commit that holds the files already: the branch's last one, or one of this export before it."""
        return head.commit if not self._differing(head) else self._repository.commit_with(self._target.marker)

    def _arrived_meanwhile(self) -> str:
        try:
            return self._arrived(self._repository.at())
        except NoSuchRevision:
            # The first commit of a repository has not.
            return ""

    def _differing(self, snapshot: Snapshot) -> list[str]:
        there = {file.path: file for file in snapshot.files}
        return [file.path for file in self._files if not self._is_same(file, there.get(file.path))]

    def _is_same(self, ours: ManifestFile, theirs: HubFile | None) -> bool:
        if theirs is None or theirs.size != ours.size:
            return False
        if theirs.sha256:
            return theirs.sha256 == ours.sha256
        with self._staging.opened(ours.sha256) as content:
            return blob_id_of(content) == theirs.blob_id

    def _large_ones(self) -> set[str]:
        told = self._repository.large_ones([(file, self._beginning(file)) for file in self._files])
        # Storage cannot take an empty file.
        large = {file.path for file in self._files if file.path in told and file.size}
        inside = sum(file.size for file in self._files if file.path not in large)
        if inside > MAX_INSIDE_BYTES:
            raise HubMisbehaves(
                f"The hub wants {inside:,} bytes of files inside the commit itself, more than "
                f"{MAX_INSIDE_BYTES:,}. Have it keep large files apart (.gitattributes), or leave some out."
            )
        return large

    def _beginning(self, file: ManifestFile) -> bytes:
        with self._staging.opened(file.sha256) as content:
            return content.read_at(0, min(512, file.size))

    def _send(self, files: Sequence[ManifestFile]) -> None:
        uploads = self._patience.keep(lambda: self._repository.uploads(files))
        missing = {file.sha256: file for file in files if file.sha256 in uploads}
        self._meter.find(sum(file.size for file in files if missing.get(file.sha256) is not file))
        self._meter.count(files=len(files) - len(missing))
        side_by_side(
            lambda file: self._send_one(file, uploads[file.sha256]),
            sorted(missing.values(), key=lambda file: -file.size),
            threads=CONNECTIONS,
        )

    def _send_one(self, file: ManifestFile, upload: LargeFileUpload) -> None:
        begun = self._begun(file, upload)
        for tries_left in reversed(range(ADDRESSES_ASKED)):
            try:
                begun.send_rest()
                break
            except AddressExpired as error:
                if not tries_left:
                    raise HubMisbehaves(f"{error} It did so for three addresses of the hub's own.") from None
                self._meter.find(-begun.done)
                fresh = self._patience.keep(lambda: self._repository.uploads([file])).get(file.sha256)
                if fresh is None:
                    self._meter.find(file.size)
                    break
                begun = _Sending(self, file, fresh, [])
        self._meter.count(files=1)

    def _begun(self, file: ManifestFile, fresh: LargeFileUpload) -> "_Sending":
        """Resume where an earlier process stopped while its addresses are valid, else begin anew."""
        note = self._read_note(_note_of(file))
        if note is None or not fresh.parts:
            return _Sending(self, file, fresh, [])
        data = json.loads(note)
        upload = LargeFileUpload(**{**data["upload"], "parts": tuple(data["upload"]["parts"])})
        sending = _Sending(self, file, upload, data["etags"])
        self._meter.find(sending.done)
        return sending

    def keep(self, work: Callable[[], T]) -> T:
        return self._patience.keep(work)

    def put(self, file: ManifestFile, upload: LargeFileUpload, address: str, offset: int, size: int) -> str:
        """Send `size` bytes of a file from `offset` on; the ETag."""
        counted = 0

        def chunks(content: Content) -> Iterator[bytes]:
            nonlocal counted
            for at in range(offset, offset + size, CHUNK_BYTES):
                data = content.read_at(at, min(CHUNK_BYTES, offset + size - at))
                yield data
                counted += len(data)
                self._meter.count(len(data))
                self._patience.renew()

        try:
            with self._staging.opened(file.sha256) as content:
                etag = self._repository.put(address, upload.headers, chunks(content), size)
        except HubError:
            self._meter.count(-counted)
            raise
        self._meter.say("")
        with self._lock:
            self._sent_bytes += size
        return etag

    def complete(self, upload: LargeFileUpload, file: ManifestFile, etags: Sequence[str]) -> None:
        self._repository.complete(upload, file, etags)

    def write_note(self, file: ManifestFile, upload: LargeFileUpload, etags: Sequence[str]) -> None:
        note = {"upload": asdict(upload), "etags": list(etags)}
        self._staging.write_note(_note_of(file), json.dumps(note).encode())

    def _commit(self, parent: str, large: set[str]) -> str:
        lines = [self._line(file, is_large=file.path in large) for file in self._files]

        def commit() -> str:
            if self._may_have_arrived and (found := self._arrived_meanwhile()):
                return found
            self._may_have_arrived = True
            return self._repository.commit(
                parent=parent,
                title=self._target.title,
                description=self._target.description,
                lines=lines,
            )

        made = self._patience.keep(commit)
        small = [file for file in self._files if file.path not in large]
        self._meter.count(sum(file.size for file in small), files=len(small))
        return made

    def _line(self, file: ManifestFile, *, is_large: bool) -> dict[str, Any]:
        if is_large:
            value = {"path": file.path, "algo": "sha256", "oid": file.sha256, "size": file.size}
            return {"key": "lfsFile", "value": value}
        with self._staging.opened(file.sha256) as content:
            inside = base64.b64encode(content.read_at(0, file.size)).decode()
        return {"key": "file", "value": {"path": file.path, "content": inside, "encoding": "base64"}}

    def _verify(self, commit: str) -> None:
        if differing := self._differing(self._repository.at(commit)):
            raise HubMisbehaves(
                f"Commit {commit[:12]} of {self._target.repo_id} does not hold {printable(differing[0])} as "
                f"it was sent ({len(differing)} file(s) differ). The hub is at fault."
            )


def _note_of(file: ManifestFile) -> str:
    return f"upload-{file.sha256}"


class _Sending:
    """A large file on its way; after each part it is noted how far it has come."""

    def __init__(
        self, push: _Push, file: ManifestFile, upload: LargeFileUpload, etags: Sequence[str]
    ) -> None:
        self._push = push
        self._file = file
        self._upload = upload
        self._etags = list(etags)

    @property
    def done(self) -> int:
        return min(len(self._etags) * self._upload.part_bytes, self._file.size)

    def send_rest(self) -> None:
        file, upload = self._file, self._upload
        if not upload.parts:
            self._push.keep(lambda: self._push.put(file, upload, upload.address, 0, file.size))
        for number in range(len(self._etags), len(upload.parts)):
            offset = number * upload.part_bytes
            size = min(upload.part_bytes, file.size - offset)
            etag = self._push.keep(
                lambda: self._push.put(file, upload, upload.parts[number], offset, size)  # noqa: B023
            )
            if not etag:
                raise HubMisbehaves("The hub's storage does not say what it holds (no ETag).")
            self._etags.append(etag)
            self._push.write_note(file, upload, self._etags)
        self._push.keep(lambda: self._push.complete(upload, file, self._etags))
