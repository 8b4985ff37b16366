"""What lies where in a directory of backups, and what each says of itself."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from common import files
from common.audit.signing import Signature, SignatureCheck, check, sign
from controlplane.backup.errors import BackupError

FORMAT = 1
UNFINISHED = ".unfinished-"


class DatabaseCopy(BaseModel):
    vendor: Literal["sqlite", "postgresql"]
    file: str
    sha256: str
    tool_version: int
    """Major version of the `pg_dump` that wrote it; 0: none did."""
    migrations: list[tuple[str, str]]
    """(app, name), in the order in which they were applied."""
    counts: dict[str, int]
    """Rows by table."""


class StoreCopy(BaseModel):
    is_copied: bool
    where: str
    """The store that it was copied from, or that still holds the files."""
    blobs: int
    bytes: int
    sha256: str
    """Of `blobs.sha256`, which lists them."""
    missing: list[str]
    """Needed by rows, and not in the store when the backup was made."""


class BackupManifest(BaseModel):
    """Description of a backup, signed with the key of the audit record."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    slipway: str
    made_at: datetime
    database: DatabaseCopy
    store: StoreCopy
    audit_seq: int
    audit_hash: str
    heads_sha256: str
    secret_key_id: str
    audit_key_id: str
    signature: str = ""

    def signed(self) -> "BackupManifest":
        key_id, value = sign(self._signed_text)
        return self.model_copy(update={"audit_key_id": key_id, "signature": value})

    def check(self) -> SignatureCheck:
        return check(Signature(self.audit_key_id, self.signature), self._signed_text)

    @property
    def _signed_text(self) -> str:
        said = self.model_dump(mode="json", exclude={"signature", "audit_key_id"})
        return "backup\n" + orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode()


class BackupDirectory:
    """The place of the backups. `Repository` would be the word, had models not taken it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.blobs = path / "blobs"
        self._backups = path / "backups"

    def make(self) -> None:
        """Raises BackupError."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            for directory in (self.blobs, self._backups):
                directory.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise BackupError(f"{self.path} cannot be used: {error.strerror}. Name another one.") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Raises BackupError while another process writes here."""
        try:
            with files.held(self.path / ".lock", within_seconds=1.0):
                yield
        except files.FileBusy:
            raise BackupError(f"Another backup is being made in {self.path}. Wait for its end.") from None

    def begun(self, at: datetime) -> Path:
        """A place for the next one; it is none before `finish`."""
        while (self._backups / f"{at:%Y%m%dT%H%M%SZ}").exists():
            at += timedelta(seconds=1)
        place = self._backups / f"{UNFINISHED}{at:%Y%m%dT%H%M%SZ}"
        place.mkdir(mode=0o700, exist_ok=True)
        return place

    def finish(self, place: Path, manifest: BackupManifest) -> "Backup":
        files.replace(place / "manifest.json", manifest.model_dump_json(indent=2).encode(), is_secret=True)
        whole = place.with_name(place.name.removeprefix(UNFINISHED))
        place.rename(whole)
        return Backup(whole, manifest)

    def unfinished(self) -> list[Path]:
        return sorted(self._backups.glob(f"{UNFINISHED}*"))

    def names(self) -> list[str]:
        """Return the names of the whole backups, the oldest first."""
        return sorted(path.parent.name for path in self._backups.glob("[0-9]*/manifest.json"))

    def keep_newest(self, number: int) -> int:
        """Remove the others, and the files of models that only they need; how many backups went.

        Raises BackupError, with nothing removed, when one that stays cannot be read.
        """
        names = self.names()
        stay, go = names[-number:], names[:-number]
        needed = {sha256 for name in stay for sha256 in self.open(name).blobs()}
        for name in go:
            shutil.rmtree(self._backups / name)
        for path in self.blobs.glob("*/*"):
            if path.name not in needed:
                path.unlink()
        return len(go)

    def open(self, name: str = "") -> "Backup":
        """Open the backup of that name, or the newest. Raises BackupError."""
        names = self.names()
        if not names:
            raise BackupError(f"There is no backup in {self.path}.")
        if name and name not in names:
            raise BackupError(f"There is no backup {name} in {self.path}. There are {', '.join(names)}.")
        place = self._backups / (name or names[-1])
        try:
            manifest = BackupManifest.model_validate_json((place / "manifest.json").read_bytes())
        except (OSError, ValidationError) as error:
            raise BackupError(f"{place / 'manifest.json'} cannot be read: {error}") from None
        if manifest.format != FORMAT:
            raise BackupError(f"{place.name} is of another format. Install Slipway {manifest.slipway}.")
        return Backup(place, manifest)


class Backup:
    """A backup that is whole."""

    def __init__(self, place: Path, manifest: BackupManifest) -> None:
        self.place = place
        self.manifest = manifest

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def database(self) -> Path:
        return self.place / self.manifest.database.file

    @property
    def heads(self) -> Path:
        return self.place / "heads.jsonl"

    def blobs(self) -> dict[str, Path]:
        """Say by sha256 where each file lies below the directory of backups."""
        return dict(read_blobs(self.place / "blobs.sha256"))

    def verify(self) -> None:
        """Check that its own files are those that the manifest names. Raises BackupError."""
        said = {
            self.database: self.manifest.database.sha256,
            self.place / "blobs.sha256": self.manifest.store.sha256,
            self.heads: self.manifest.heads_sha256,
        }
        for path, sha256 in said.items():
            if sha256_of(path) != sha256:
                raise BackupError(f"{path} is damaged: it is not what the manifest names.")


def write_blobs(path: Path, blobs: dict[str, int]) -> None:
    """Write it as `sha256sum -c` reads it in the directory of backups."""
    lines = (f"{sha256}  {blob_place(sha256).as_posix()}\n" for sha256 in sorted(blobs))
    path.write_text("".join(lines))


def read_blobs(path: Path) -> Iterator[tuple[str, Path]]:
    with path.open() as lines:
        for line in lines:
            sha256, _, place = line.rstrip("\n").partition("  ")
            yield sha256, Path(place)


def blob_place(sha256: str) -> Path:
    return Path("blobs", sha256[:2], sha256)


def sha256_of(path: Path) -> str:
    """Raises BackupError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}.") from None
