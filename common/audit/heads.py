"""Heads of the record that left the database: a file of one signed JSON line each, only ever added to.

Copies of its lines elsewhere (another machine, a log store, a webhook's receiver) are what proves the most:
who rewrites the database and this file cannot reach them.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings

from common import clock
from common.audit.signing import Signature, SignatureCheck, check, sign
from common.models import AuditHead


@dataclass(frozen=True)
class ChainHead:
    """The last entry of the record at a moment; its hash stands for every entry up to it."""

    seq: int
    hash: str
    at: datetime
    signature: Signature

    @classmethod
    def signed(cls, seq: int, digest: str, at: datetime) -> "ChainHead":
        return cls(seq, digest, at, sign(_signed_text(seq, digest, at)))

    @cached_property
    def is_ours(self) -> bool:
        """Signed with a key of this installation."""
        return check(self.signature, _signed_text(self.seq, self.hash, self.at)) is SignatureCheck.GOOD

    @property
    def document(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "hash": self.hash,
            "exported_at": self.at.isoformat(),
            "key_id": self.signature.key_id,
            "signature": self.signature.value,
        }

    @property
    def text(self) -> str:
        return orjson.dumps(self.document).decode()


def current() -> ChainHead | None:
    """The present head, signed now; None while nothing is recorded."""
    found = AuditHead.objects.filter(pk=1, seq__gt=0).first()
    return ChainHead.signed(found.seq, found.hash, clock.now()) if found else None


def file() -> Path:
    return Path(settings.SLIPWAY_HOME) / "audit" / "heads.jsonl"


def append(head: ChainHead) -> None:
    """Append to this server's file; it is on the disk when this returns. Raises OSError."""
    path = file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        end = os.fstat(descriptor).st_size
        # A line that a full disk has cut off stays a line of its own.
        is_cut = end > 0 and os.pread(descriptor, 1, end - 1) != b"\n"
        line = (b"\n" if is_cut else b"") + head.text.encode() + b"\n"
        if os.write(descriptor, line) < len(line):
            raise OSError(f"{path}: only a part of the line was written")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: Path) -> list[ChainHead]:
    """Read the heads of a file, oldest first; lines that are no head, such as one cut off, are left out.

    None when there is no file. Raises OSError.
    """
    try:
        with path.open("rb") as lines:
            return sorted(_heads(lines), key=lambda head: head.seq)
    except FileNotFoundError:
        return []


def _heads(lines: Iterable[bytes]) -> Iterator[ChainHead]:
    for line in lines:
        try:
            said = orjson.loads(line)
            signature = Signature(str(said["key_id"]), str(said["signature"]))
            at = datetime.fromisoformat(said["exported_at"])
            yield ChainHead(int(said["seq"]), str(said["hash"]), at, signature)
        except (ValueError, KeyError, TypeError):
            continue


def _signed_text(seq: int, digest: str, at: datetime) -> str:
    return f"head\n{seq}\n{digest}\n{at.isoformat()}"
