"""What is deleted once it has been kept for long enough: rules that apps offer, and the row that runs them.

A rule deletes in small batches, each in a transaction of its own with its count, so that no writer waits
long and a crash in between is harmless: the next look goes on with what is left.
"""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import BigIntegerField, CharField, Exists, Model, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils.functional import Promise

from common.models import Intent, Pruning
from common.reconcile.engine import kernel
from common.reconcile.rows import EPOCH
from common.reconcile.steps import Operation, Recurring, StepOutcome, wait

logger = logging.getLogger(__name__)

BETWEEN_BATCHES = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class PruningRule:
    """Rule for a kind of row that is deleted some days after it has ended."""

    model: type[Model]
    noun: str | Promise
    """What they are, in the plural."""
    setting: str
    """How many days they are kept: the name of a setting; 0 there: for good."""
    ended: Callable[[datetime], QuerySet[Any]]
    """Those that ended before a moment and that nothing needs, in the order in which they go."""
    kept: str | Promise = ""
    """Which stay however old they are, as a sentence."""
    at_once: int = 500
    """Rows, and what goes with them, that one transaction deletes."""

    @property
    def key(self) -> str:
        return self.model._meta.label_lower

    @property
    def days(self) -> int:
        days: int = getattr(settings, self.setting)
        return days

    def due(self, now: datetime) -> QuerySet[Any]:
        return self.ended(now - timedelta(days=self.days)) if self.days else self.model._base_manager.none()


@dataclass(frozen=True, slots=True)
class PruningPass:
    """Work that a rule has done, as `Pruning.passes` notes it. Moments as ISO 8601."""

    ended_at: str = ""
    """When it last had nothing left to delete; empty: never yet."""
    removed: int = 0
    """Rows that the last pass which found any has deleted, at `removed_at`."""
    removed_at: str = ""
    so_far: int = 0
    """Rows that the present pass has deleted."""
    problem: str = ""
    """Why the last batch could not be deleted."""

    @classmethod
    def of(cls, row: Pruning, rule: PruningRule) -> "PruningPass":
        noted = row.passes.get(rule.key, {})
        return cls(**{name: noted[name] for name in cls.__slots__ if name in noted})

    def after(self, now: datetime, removed: int, *, is_over: bool, problem: str) -> "PruningPass":
        """Return the pass after one more batch."""
        total = self.so_far + removed
        done = replace(self, removed=total, removed_at=now.isoformat()) if removed else self
        if is_over:
            return replace(done, so_far=0, ended_at=now.isoformat(), problem=problem)
        return replace(done, so_far=total)


@dataclass(frozen=True, slots=True)
class PruningStatus:
    """A rule as its page shows it."""

    rule: PruningRule
    rows: int
    removed: int
    removed_at: datetime | None
    """None: it has not deleted any yet."""
    problem: str


@dataclass(frozen=True, slots=True)
class PruningBatch:
    """The keys of what a rule deletes next."""

    rule: PruningRule
    keys: list[Any] = field(default_factory=list)
    problem: str = ""


_rules: dict[str, PruningRule] = {}


def offer(*rules: PruningRule) -> None:
    """Raises ValueError for a second one of a model."""
    for rule in rules:
        if rule.key in _rules:
            raise ValueError(f"{rule.key} is pruned by another rule already.")
        _rules[rule.key] = rule


def rules() -> tuple[PruningRule, ...]:
    return tuple(_rules.values())


def kept() -> list[PruningStatus]:
    """Every rule and what came of it. One query for each, and one more."""
    row = Pruning.objects.filter(pk=1).first() or Pruning()
    found = []
    for rule in _rules.values():
        done = PruningPass.of(row, rule)
        at = datetime.fromisoformat(done.removed_at) if done.removed_at else None
        found.append(PruningStatus(rule, rule.model._base_manager.count(), done.removed, at, done.problem))
    return found


def at_rest(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Narrow rows of the kernel to those for which nothing is due and that wait for nobody."""
    return rows.filter(next_at=None, stuck_at=None, lease_until=EPOCH)


def finished_intents(before: datetime) -> QuerySet[Intent]:
    """Return the intents of ended steps: that of the present one is how a crash is told from a beginning."""
    rows = Intent.objects.filter(state=Intent.State.ACTED, acted_at__lt=before)
    colon = Value(":")
    for kind in kernel.kinds:
        model = kernel.reconciler(kind).model
        row = model._base_manager.filter(pk=Cast(OuterRef("object_id"), BigIntegerField()))
        op_key = Concat(
            Value(f"{kind}:"),
            OuterRef("object_id"),
            colon,
            Cast("turn", CharField()),
            colon,
            OuterRef("step"),
            output_field=CharField(),
        )
        rows = rows.exclude(
            Q(kind=kind) & Exists(row.annotate(present=op_key).filter(present=OuterRef("op_key")))
        )
    return rows.order_by("acted_at")


class Prune(Recurring[Pruning]):
    """Delete a batch of one rule at every look; each rule once an hour until nothing is left to delete."""

    model = Pruning
    name = "prune"
    every = timedelta(hours=1)

    def observe(self, row: Pruning, operation: Operation) -> PruningBatch | None:
        due = [rule for rule in _rules.values() if self._due_at(row, rule, operation.at) <= operation.at]
        if not due:
            return None
        # Those of which there is much wait for those of which there is little.
        rule = min(due, key=lambda rule: PruningPass.of(row, rule).so_far)
        try:
            with transaction.atomic():
                return PruningBatch(rule, list(_keys(rule, operation.at)))
        except DatabaseError as error:
            return PruningBatch(rule, problem=f"{type(error).__name__}: {error}")

    def settle(self, row: Pruning, seen: PruningBatch | None, now: datetime) -> StepOutcome:
        if seen is not None:
            return wait(BETWEEN_BATCHES, write=lambda: self._delete(row, seen, now))
        due_at = min((self._due_at(row, rule, now) for rule in _rules.values()), default=now + self.every)
        return wait(due_at - now)

    def _due_at(self, row: Pruning, rule: PruningRule, now: datetime) -> datetime:
        ended_at = PruningPass.of(row, rule).ended_at
        # However the clock was set since: an hour from now at the latest.
        return min(datetime.fromisoformat(ended_at), now) + self.every if ended_at else now

    def _delete(self, row: Pruning, batch: PruningBatch, now: datetime) -> None:
        rule, removed, problem = batch.rule, 0, batch.problem
        try:
            # A rule that fails ends its pass; the others go on.
            with transaction.atomic():
                removed = _deleted(rule, batch.keys, now) if batch.keys else 0
        except DatabaseError as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            logger.error("%s cannot be pruned: %s", rule.key, problem)
        elif removed:
            logger.info("%s: %s rows older than %s days were deleted", rule.key, removed, rule.days)
        is_over = bool(problem) or len(batch.keys) < rule.at_once
        done = PruningPass.of(row, rule).after(now, removed, is_over=is_over, problem=problem)
        Pruning.objects.filter(pk=row.pk).update(passes={**row.passes, rule.key: asdict(done)})


def _keys(rule: PruningRule, now: datetime) -> QuerySet[Any]:
    return rule.due(now).values_list("pk", flat=True)[: rule.at_once]


def _deleted(rule: PruningRule, keys: list[Any], now: datetime) -> int:
    """Delete these rows and return their number: what has come to be needed since they were found stays."""
    rows = rule.due(now).filter(pk__in=keys).order_by()
    return rows.delete()[1].get(rule.model._meta.label, 0)
