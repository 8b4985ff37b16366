"""Signs of life of the processes that take due rows, in the database: what they share is the work in it."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psutil
from django.db import transaction
from django.db.models import F, QuerySet

from common import clock
from common.models import Pulse
from common.reconcile.due import DueRow

EVERY_SECONDS = 2.0
SILENT_AFTER = timedelta(seconds=6)
MISSED = timedelta(seconds=3)
"""A sign of life is overdue."""
GONE_AFTER = timedelta(minutes=1)
"""So long a host counts as living after its last sign, and a machine that is silent as a whole is told of."""

_published: dict[str, Callable[[], Any]] = {}


def publish(name: str, fact: Callable[[], Any]) -> None:
    """Have every process here give what `fact` returns, as JSON, along with its signs of life."""
    _published[name] = fact


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Process that gives a sign of life."""

    role: str
    host: str
    """As `common.hosts` names it."""
    pid: int
    machine: str = ""
    """Where its number means something: containers may share a home."""

    @property
    def name(self) -> str:
        return f"{self.role}@{self.machine or self.host}:{self.pid}"


@dataclass(frozen=True, slots=True)
class RowShare:
    """Rows that one of several processes takes first."""

    index: int
    of: int
    index_here: int = 0
    of_here: int = 1
    """Among the processes of its host, for rows that only these take."""

    def holds(self, row: DueRow) -> bool:
        index, of = (self.index_here, self.of_here) if row.is_hosts else (self.index, self.of)
        return zlib.crc32(f"{row.kind}:{row.id}".encode()) % of == index


@dataclass(frozen=True, slots=True)
class WorkDone:
    """Work that a process has done since it started."""

    taken: int = 0
    """Steps."""
    run_out: int = 0
    """Leases that it saw run out: steps of its own that took too long, and of others that it took over."""
    hung: tuple[str, ...] = ()
    """Lanes in which a thread of its own hangs at this moment."""
    pool: Mapping[str, int] = field(default_factory=dict)
    """Its connections to the database at this moment, as in `Pulse.pool`."""
    skew: float = 0.0
    """Of its host's clock, as in `Pulse.skew`."""


@dataclass(frozen=True, slots=True)
class StepWorkers:
    """The processes of one role."""

    role: str
    alive: int
    """How many have taken what was due in the last seconds."""
    silent: int
    """How many have not, and have not said that they end."""
    silent_names: Sequence[str]
    """`role@machine:pid` of each."""
    last_at: datetime | None
    """When one of them was last proven to take what is due."""
    hung_since: datetime | None
    """Of those that are silent, since when the first is."""
    taken: int
    """Steps, of all that there ever were."""
    run_out: int
    """Leases that ran out before the step had ended."""
    lost: int
    """Processes, of all that there ever were, that ended without a word: killed, or replaced."""
    hung: Mapping[str, int]
    """By lane in which a step hangs, in how many processes."""
    skews: Mapping[str, float]
    """By host: how many seconds the database's clock is ahead of its own."""


def give(sign: ProcessIdentity, *, at: datetime, work: WorkDone) -> RowShare:
    """Note that the process took what was due at that moment, and its work so far.

    Returns its share of the work among all that are alive.
    """
    rows = Pulse.objects.filter(name=sign.name)
    done = asdict(work) | {"published": {name: fact() for name, fact in _published.items()}}
    if not rows.update(at=at, **done):
        whose = {"role": sign.role, "host": sign.host, "machine": sign.machine, "pid": sign.pid}
        Pulse.objects.create(name=sign.name, at=at, **whose, **done)
    alive: list[str] = []
    here: list[str] = []
    others = list(Pulse.objects.exclude(pid=0).order_by("name"))
    heard = {other.machine for other in others if clock.now() - other.at < SILENT_AFTER}
    for other in others:
        age = clock.now() - other.at
        if other.name != sign.name and _is_gone(other, age, machine=sign.machine, heard=heard):
            _take_leave(other, lost=1)
        elif other.name == sign.name or age < SILENT_AFTER:
            alive.append(other.name)
            here += [other.name] * (other.host == sign.host)
    if sign.name not in alive:
        return RowShare(0, 1)
    return RowShare(alive.index(sign.name), len(alive), here.index(sign.name), len(here))


def living_hosts() -> set[str]:
    """Return the hosts with a process that gave a sign of life within the last minute. One query."""
    return set(_living().values_list("host", flat=True))


def published(name: str) -> dict[str, Any]:
    """Return by living host what its processes publish under that name. One query."""
    found = _living().order_by("at").values_list("host", "published")
    return {host: facts[name] for host, facts in found if name in facts}


def _living() -> QuerySet[Pulse]:
    return Pulse.objects.filter(at__gt=clock.now() - GONE_AFTER).exclude(pid=0)


def leave(sign: ProcessIdentity, work: WorkDone) -> None:
    """The process ends as it should."""
    Pulse.objects.filter(name=sign.name).update(**asdict(work))
    for row in Pulse.objects.filter(name=sign.name):
        _take_leave(row, lost=0)


def pools(role: str, machine: str) -> dict[int, Mapping[str, int]]:
    """Return by pid the database connections of a role's processes on a machine, seconds old. One query."""
    rows = Pulse.objects.filter(role=role, machine=machine, at__gt=clock.now() - GONE_AFTER)
    found = rows.exclude(pid=0).order_by("pid").values_list("pid", "pool")
    return {pid: pool for pid, pool in found if pool}


def takers(*, roles: Sequence[str] = ("sweeper", "worker"), machine: str = "") -> dict[str, StepWorkers]:
    """Summarize the takers by role, of all machines or of one. One query."""
    since = clock.now() - SILENT_AFTER
    rows = list(Pulse.objects.filter(machine=machine) if machine else Pulse.objects.all())
    found = {}
    for role in sorted({*roles, *(row.role for row in rows if row.role)}):
        of_role = [row for row in rows if row.role == role]
        living = [row for row in of_role if row.pid]
        silent = [row for row in living if row.at <= since]
        found[role] = StepWorkers(
            role=role,
            alive=len(living) - len(silent),
            silent=len(silent),
            silent_names=[row.name for row in silent],
            last_at=max((row.at for row in living), default=None),
            hung_since=min((row.at for row in silent), default=None),
            taken=sum(row.taken for row in of_role),
            run_out=sum(row.run_out for row in of_role),
            lost=sum(row.lost for row in of_role),
            hung=Counter(lane for row in living for lane in row.hung),
            skews={row.host: row.skew for row in living},
        )
    return found


def skews(found: Iterable[StepWorkers]) -> dict[str, float]:
    """Return by host how many seconds the database's clock is ahead of its own."""
    return {host: skew for one in found for host, skew in one.skews.items()}


def _is_gone(row: Pulse, age: timedelta, *, machine: str, heard: set[str]) -> bool:
    """`heard`: machines of which some process is alive, which knows best whether another one hangs there."""
    if age <= MISSED:
        return False
    if row.machine == machine:
        return not _is_there(row)
    return age > GONE_AFTER and row.machine not in heard


def _is_there(row: Pulse) -> bool:
    """Whether the process exists still, stopped or hung: one that was started later has only its number."""
    try:
        started = psutil.Process(row.pid).create_time() + clock.skew_seconds()
    except psutil.NoSuchProcess:
        return False
    return started < row.at.timestamp() + MISSED.total_seconds()


def _take_leave(row: Pulse, *, lost: int) -> None:
    """Its row goes, what it did is added to that of its role's former processes (`pid` 0)."""
    with transaction.atomic():
        if not Pulse.objects.filter(name=row.name).delete()[0]:
            return  # someone was first
        former, _ = Pulse.objects.get_or_create(name=row.role, defaults={"role": row.role, "at": row.at})
        Pulse.objects.filter(name=former.name).update(
            role=row.role,
            taken=F("taken") + row.taken,
            run_out=F("run_out") + row.run_out,
            lost=F("lost") + lost,
        )
