import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db import transaction
from django.db.models import F, Model
from django.utils import timezone

from common import clock, events
from common.actor import Actor
from common.audit.signing import sign
from common.database.transactions import in_transaction
from common.models import AuditHead, AuditRecord

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Recorded:
    """Something was done and written down."""

    seq: int
    subject_kind: str
    """Of what it was done to, such as `models_registry.version`; empty for what has no row."""


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
    if not in_transaction():
        raise transaction.TransactionManagementError(
            "An audit row belongs inside the transaction of its deed."
        )
    kind, key, label = _named(subject)
    if not AuditHead.objects.filter(pk=1).update(seq=F("seq") + 1):
        raise RuntimeError("The head of the audit chain is gone: restore the database from a backup.")
    head = AuditHead.objects.get(pk=1)
    row = AuditRecord(
        seq=head.seq,
        at=clock.now(),
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
    row.hash = hash_of(row)
    row.key_id, row.signature = sign(row.hash)
    row.save(force_insert=True)
    AuditHead.objects.filter(pk=1).update(hash=row.hash)
    events.publish(Recorded(row.seq, kind))
    return row


def length() -> int:
    """Count the rows of the record, as its head says; one query."""
    return AuditHead.objects.filter(pk=1).values_list("seq", flat=True).first() or 0


def installation() -> str:
    """Return the first link, by which others tell installations apart; neither a change of keys nor a restore
    changes it. Empty while there is none.
    """
    first = AuditRecord.objects.order_by("seq").values_list("hash", flat=True).first()
    return (first or "")[:16]


def _named(subject: Model | str) -> tuple[str, str, str]:
    if isinstance(subject, str):
        return "", "", subject
    return subject._meta.label_lower, str(subject.pk), str(subject)


def hash_of(row: AuditRecord) -> str:
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
