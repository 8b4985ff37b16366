import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db import connection, transaction
from django.db.models import F, Model
from django.utils import timezone

from common.actor import Actor
from common.models import AuditHead, AuditRecord

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Broken:
    """The first place where the chain does not hold."""

    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    checked: int
    broken: Broken | None
    head_hash: str

    @property
    def intact(self) -> bool:
        return self.broken is None


def record(
    actor: Actor,
    action: str,
    *,
    subject: Model | str,
    reason: str = "",
    detail: Mapping[str, Any] | None = None,
    team_id: int | None = None,
) -> AuditRecord:
    """Append one row; `action` reads `release.approve`, `subject` is the thing it was done to.

    Must run inside the transaction of the deed, so that neither exists without the other: a failure here
    fails the deed. Concurrent writers queue on the head row: call it as late in the transaction as you can.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            "An audit row belongs inside the transaction of its deed."
        )
    kind, key, label = _named(subject)
    if not AuditHead.objects.filter(pk=1).update(seq=F("seq") + 1):
        raise RuntimeError("The head of the audit chain is gone: restore the database from a backup.")
    head = AuditHead.objects.get(pk=1)
    row = AuditRecord(
        seq=head.seq,
        at=timezone.now(),
        actor=actor.name,
        user_id=actor.user_id,
        token_id=actor.token_id,
        address=actor.address,
        via=actor.via,
        action=action,
        subject_kind=kind,
        subject_id=key,
        subject_label=label,
        team_id=team_id,
        reason=reason,
        # A round trip through JSON, so that what is hashed is what the database will give back.
        detail=orjson.loads(orjson.dumps(dict(detail or {}), default=str)),
        previous_hash=head.hash,
    )
    row.hash = _hash(row)
    row.save(force_insert=True)
    AuditHead.objects.filter(pk=1).update(hash=row.hash)
    return row


def length() -> int:
    """How many rows the record has, as its head says; one query."""
    return AuditHead.objects.filter(pk=1).values_list("seq", flat=True).first() or 0


def verify(*, chunk: int = 2000) -> Verdict:
    """Recompute the whole chain: altered, missing, reordered and cut-off rows are all found."""
    previous, seq, checked = GENESIS, 0, 0
    last = AuditRecord.objects.order_by("-seq").values_list("seq", flat=True).first() or 0
    # Read after the last row and before the walk: rows that arrive meanwhile lie beyond it.
    head = AuditHead.objects.get(pk=1)
    if head.seq < last:
        return Verdict(
            0, Broken(head.seq + 1, f"The head is row {head.seq}, yet row {last} exists."), head.hash
        )
    for row in AuditRecord.objects.filter(seq__lte=head.seq).order_by("seq").iterator(chunk_size=chunk):
        if row.seq != seq + 1:
            return Verdict(checked, Broken(seq + 1, f"Row {seq + 1} is missing."), previous)
        if row.previous_hash != previous:
            return Verdict(checked, Broken(row.seq, f"Row {row.seq} does not follow row {seq}."), previous)
        if row.hash != _hash(row):
            return Verdict(checked, Broken(row.seq, f"Row {row.seq} was altered."), previous)
        previous, seq, checked = row.hash, row.seq, checked + 1
    if (seq, previous) != (head.seq, head.hash):
        return Verdict(
            checked, Broken(seq + 1, f"The chain ends at row {seq}, its head is row {head.seq}."), previous
        )
    return Verdict(checked, None, previous)


def _named(subject: Model | str) -> tuple[str, str, str]:
    if isinstance(subject, str):
        return "", "", subject
    return subject._meta.label_lower, str(subject.pk), str(subject)


def _hash(row: AuditRecord) -> str:
    content = [
        row.seq,
        _instant(row.at),
        row.actor,
        row.user_id,
        row.token_id,
        row.address,
        row.via,
        row.action,
        row.subject_kind,
        row.subject_id,
        row.subject_label,
        row.team_id,
        row.reason,
        row.detail,
        row.previous_hash,
    ]
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _instant(at: datetime) -> str:
    return at.astimezone(tz=timezone.get_default_timezone()).isoformat(timespec="microseconds")
