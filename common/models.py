from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from common import clock
from common.logs.context import PACKED_LENGTH


class AuditRecord(models.Model):
    """A record of one act. Written by `common.audit.record` alone; never changed, never deleted.

    People, tokens and subjects are kept as plain ids and names, so that the record outlives them.
    """

    seq = models.PositiveBigIntegerField(primary_key=True)
    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=200)
    user_id = models.BigIntegerField(null=True, db_index=True)
    token_id = models.BigIntegerField(null=True)
    address = models.CharField(max_length=64, blank=True)
    via = models.CharField(max_length=16)
    action = models.CharField(max_length=100, db_index=True)
    subject_kind = models.CharField(max_length=100, blank=True)
    subject_id = models.CharField(max_length=64, blank=True)
    subject_label = models.CharField(max_length=300)
    team_id = models.BigIntegerField(null=True, db_index=True)
    reason = models.TextField(blank=True)
    detail = models.JSONField(default=dict)
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)
    signature = models.CharField(max_length=64, blank=True, default="")
    """Of the hash; empty: written before entries were signed."""
    key_id = models.CharField(max_length=12, blank=True, default="")
    """Which key signed."""

    class Meta:
        indexes: ClassVar = [models.Index(fields=["subject_kind", "subject_id", "seq"], name="audit_subject")]

    def __str__(self) -> str:
        return f"{self.seq} {self.actor} {self.action} {self.subject_label}"


class AuditHead(models.Model):
    """The chain's last link: the row on which appends queue, and by which a cut-off end is noticed."""

    seq = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, default="0" * 64)

    def __str__(self) -> str:
        return f"{self.seq} {self.hash[:12]}"


class Intent(models.Model):
    """The kernel's journal: what a step was about to do, committed before it was done."""

    class State(models.TextChoices):
        INTENDED = "intended", _("Intended")
        ACTED = "acted", _("Acted")
        UNKNOWN = "unknown", _("Unknown")

    op_key = models.CharField(max_length=200, primary_key=True)
    kind = models.CharField(max_length=50)
    object_id = models.CharField(max_length=64)
    step = models.CharField(max_length=60)
    wanted = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=State.choices, default=State.INTENDED)
    result = models.JSONField(null=True)
    fence = models.PositiveBigIntegerField()
    intended_at = models.DateTimeField()
    acted_at = models.DateTimeField(null=True)
    origin = models.CharField(max_length=PACKED_LENGTH, blank=True, default="")
    """The request that it goes back to, as on the row."""

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["kind", "object_id", "intended_at"], name="intent_object"),
            models.Index(fields=["acted_at"], name="intent_finished", condition=models.Q(state="acted")),
        ]

    def __str__(self) -> str:
        return f"{self.op_key} {self.state}"


class PublicNumber(models.Model):
    """The last number given to a row of a kind that people know by its number; see `common.numbers`."""

    kind = models.CharField(max_length=100, primary_key=True)
    last = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.kind} {self.last}"


class Pulse(models.Model):
    """The last sign of life of a process that takes due rows; see `common.reconcile.pulses`."""

    name = models.CharField(max_length=200, primary_key=True)
    """`role@machine:pid`; the role alone for the sum of those that have ended."""
    role = models.CharField(max_length=20, default="")
    host = models.CharField(max_length=63, blank=True)
    """As `common.hosts` names it."""
    machine = models.CharField(max_length=100, blank=True)
    pid = models.PositiveIntegerField(default=0)
    """0: the sum of those that have ended."""
    at = models.DateTimeField()
    """When it was last proven to take what is due."""
    taken = models.PositiveBigIntegerField(default=0)
    """Steps."""
    run_out = models.PositiveBigIntegerField(default=0)
    """Steps whose lease ran out before they ended."""
    lost = models.PositiveBigIntegerField(default=0)
    """Of those that have ended, how many did so without a word."""
    hung = models.JSONField(default=list, blank=True)
    """Names of the lanes in which a step hangs."""
    pool = models.JSONField(default=dict, blank=True)
    """Its connections to the database: `{in_use, idle, limit, waiting}`; empty: it has no pool."""
    skew = models.FloatField(default=0.0)
    """Seconds that the database's clock is ahead of its host's."""
    published = models.JSONField(default=dict, blank=True)
    """Facts of its host that other hosts ask for, by name; see `pulses.publish`."""

    def __str__(self) -> str:
        return f"{self.name} {self.at:%H:%M:%S}"


class Restoration(models.Model):
    """The database came out of a backup."""

    at = models.DateTimeField(default=clock.now)
    made_at = models.DateTimeField()
    """When the backup was made: of what came later nothing is known."""
    name = models.CharField(max_length=100)
    """Of the backup."""
    audit_seq = models.PositiveBigIntegerField()
    """The last entry of the record that came along."""
    in_motion = models.JSONField(default=dict)
    """By kind, the ids of the rows whose next effect may have been made; see `common.reconcile.restored`."""

    def __str__(self) -> str:
        return f"{self.name} restored {self.at:%Y-%m-%d %H:%M}"

    @classmethod
    def may_have_happened(cls, kind: str, pk: int) -> bool:
        """Whether the row was in motion when the database was restored."""
        return any(pk in found.get(kind, ()) for found in cls.objects.values_list("in_motion", flat=True))


class DiskCondition(models.Model):
    """A disk that is low or full, as it was told last; see `common.disk_watch`. No row: there is room."""

    host = models.CharField(max_length=150)
    path = models.CharField(max_length=1000)
    """Of the home on it."""
    state = models.CharField(max_length=10)
    since = models.DateTimeField(default=clock.now)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["host", "path"], name="disk_condition_once")]

    def __str__(self) -> str:
        return f"disk of {self.path} on {self.host}: {self.state}"


class IdempotentAnswer(models.Model):
    """The answer to a creation that carried an `Idempotency-Key`; see `common.api.idempotency`."""

    actor = models.CharField(max_length=40)
    path = models.CharField(max_length=500)
    key = models.CharField(max_length=255)
    body_hash = models.CharField(max_length=64)
    claim = models.CharField(max_length=32)
    """Who is answering: changes hands when the lease runs out."""
    lease_until = models.DateTimeField()
    created_at = models.DateTimeField(db_index=True)
    status = models.PositiveSmallIntegerField(null=True)
    """None while the request is being answered."""
    headers = models.JSONField(default=dict)
    body = models.TextField(blank=True)
    """Empty, too, where the answer held a secret."""
    secret = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["actor", "path", "key"], name="idempotency_key_once")
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.path} {self.key}"


# The kernel, which its base belongs to, imports the rows above.
from common.reconcile.rows import Singleton  # noqa: E402


class Pruning(Singleton):
    """Deletes what has been kept for long enough; see `common.reconcile.pruning`."""

    passes = models.JSONField(default=dict, editable=False)
    """By the key of its rule, what its last pass has done."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "pruning"

    @classmethod
    def seed(cls, now: datetime) -> Mapping[str, Any]:
        return {"next_at": now + timedelta(hours=1)}
