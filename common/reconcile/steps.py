"""What an app writes: steps that see, judge and act, and a reconciler that says which one is next."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Generic, Self, TypeVar
from urllib.parse import urlsplit

from django.db.models import QuerySet

from common.errors import SlipwayError
from common.reconcile.rows import Reconciled
from common.retry import backoff
from common.transitions import StateMachine

Row = TypeVar("Row", bound=Reconciled)


class LeaseLost(Exception):
    """Another worker, or an interruption, has the row by now: what this one was about to write is void."""


class UnknownEffect(SlipwayError):
    """An irreversible effect was begun by a worker that died, and it cannot be seen whether it happened."""


class NotKnownHere(SlipwayError):
    """The row says something that only a newer release of Slipway knows, as while processes are replaced: it
    is left to one of these."""

    @classmethod
    def state(cls, name: str) -> Self:
        return cls(f"The state {name} is of a newer release of Slipway.")

    @classmethod
    def step(cls, kind: str) -> Self:
        return cls(f"The step {kind} is of a newer release of Slipway.")

    @classmethod
    def event(cls, type_: str) -> Self:
        return cls(f"The webhook event {type_} is of a newer release of Slipway.")


class Effect(Enum):
    """Effect of repeating a step's act, and so what the kernel may do after a crash."""

    NONE = "none"
    """The step only looks."""
    ABSOLUTE = "absolute"
    """Sets something to a value, the fence as precondition. Repeated at every look while the step lasts."""
    CREATE = "create"
    """Creates under a deterministic name; "it is there, with our op_key" is success. Repeated till then."""
    IRREVERSIBLE = "irreversible"
    """Begun at most once per op_key. After a crash the world is asked; no answer means a person is asked."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The licence to make one effect: what the resource must check, and under which name."""

    op_key: str
    """The same for every attempt at this step, by any worker; different for every other step of any row."""
    fence: int
    at: datetime


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Outcome of a step. Made by `proceed`, `move`, `wait`, `rest` or `again`."""

    next_in: timedelta | None
    ends_step: bool
    save: Mapping[str, Any] = field(default_factory=dict)
    write: Callable[[], None] | None = None
    lost: str = ""
    """Why the step has to be begun anew."""
    to: str = ""
    """The state that the row moves to; empty: it stays in its own."""
    note: Any = ""
    """What the history says of the move, as the kind's `on_move` takes it."""


def proceed(
    *,
    save: Mapping[str, Any] | None = None,
    write: Callable[[], None] | None = None,
    after: timedelta = timedelta(0),
) -> StepOutcome:
    """The step is over: save these columns, run `write` (history, audit, events) in the same transaction."""
    return StepOutcome(next_in=after, ends_step=True, save=save or {}, write=write)


def move(
    to: str,
    *,
    note: Any = "",
    save: Mapping[str, Any] | None = None,
    write: Callable[[], None] | None = None,
    after: timedelta | None = timedelta(0),
) -> StepOutcome:
    """The step is over and the row in another state: one that the kind's table of moves allows.

    `write`: what else belongs to this one, after `on_move`. `after`: when its next step is due; None: when
    somebody wakes it.
    """
    return StepOutcome(next_in=after, ends_step=True, save=save or {}, write=write, to=to, note=note)


def wait(
    after: timedelta, *, save: Mapping[str, Any] | None = None, write: Callable[[], None] | None = None
) -> StepOutcome:
    """Look again in `after`. `save` may refresh what the page shows meanwhile."""
    return StepOutcome(next_in=after, ends_step=False, save=save or {}, write=write)


def rest(*, save: Mapping[str, Any] | None = None, write: Callable[[], None] | None = None) -> StepOutcome:
    """The step is over and nothing is due until somebody wakes the row."""
    return StepOutcome(next_in=None, ends_step=True, save=save or {}, write=write)


def again(why: str, *, save: Mapping[str, Any] | None = None) -> StepOutcome:
    """Make the step's effect anew: it is gone, such as a Job that its time to live has removed.

    Counts as a failed attempt for the reason `why`; the next has an op_key of its own.
    """
    return StepOutcome(next_in=None, ends_step=True, save=save or {}, lost=why)


class Step(ABC, Generic[Row]):
    """A step of a row: `act` makes the effect, `observe` sees the world, `settle` judges; seconds at most.

    Work that takes longer is a subprocess or a job that `act` starts and `observe` looks for.
    """

    name: ClassVar[str]
    effect: ClassVar[Effect] = Effect.NONE

    def intent(self, row: Row) -> Mapping[str, Any]:
        """Return what `act` is about to do, as JSON: journalled before it is done."""
        return {}

    def act(self, row: Row, operation: Operation) -> Mapping[str, Any] | None:
        """Make the effect. Raising counts as a failed attempt; LeaseLost (a refused fence) ends the turn.

        What is raised as `Unavailable` is tried for ever: no person could do more than wait for it, too.
        """
        return None

    def happened(self, row: Row, operation: Operation) -> bool | None:
        """Whether an irreversible effect begun before a crash happened; None when the world cannot tell.

        Asking must also shut out earlier askers at the resource (it learns `operation.fence`), so that a
        worker that sleeps between its check and its act cannot act after the answer was given.
        """
        return None

    def observe(self, row: Row, operation: Operation) -> Any:
        """Look at the world as it is now; read-only."""
        return None

    @abstractmethod
    def settle(self, row: Row, seen: Any, now: datetime) -> StepOutcome:
        """Return the outcome of what was seen; pure."""


class Reconciler(ABC, Generic[Row]):
    """The way one kind of row advances. Its kind is that of its model: `releases.release`."""

    kind: ClassVar[str]
    """`app.model`, in lower case: in journals, metrics, events and addresses."""
    model: type[Row]
    lease: ClassVar[timedelta] = timedelta(seconds=30)
    """How long a step may take; in a lane, its thread is given up then."""
    max_attempts: ClassVar[int | None] = 5
    """None: it does not give up."""
    moves: ClassVar[StateMachine[Any] | None] = None
    """Of the column `state`, for rows that have one: every `move` goes through it."""
    waits_for_host: ClassVar[bool] = True
    """Nobody but its host can take its steps, however long that one is silent. Otherwise `host_of` is asked
    anew once it is."""
    right: ClassVar[str] = ""
    """A value of `accounts.states.Right`: who has it tries a stuck row again; empty: `fleet.operate`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "model" in cls.__dict__:
            cls.kind = cls.model._meta.label_lower

    def rows(self) -> QuerySet[Row]:
        """Return the query for a claimed row: with what its steps need anyway."""
        return self.model._default_manager.all()

    @abstractmethod
    def next_step(self, row: Row, now: datetime) -> Step[Row] | None:
        """The step that is next, wishes such as an abort considered first; None when the row can rest."""

    def lane_of(self, row: Row) -> str:
        """The outside system that the next step waits for, as `lane_at` names it; empty: none but ours.

        Asked at every claim: cheap and without effects. A step is only taken in its lane.
        """
        return ""

    def log_fields(self, row: Row) -> Mapping[str, Any]:
        """Return the fields of lines that are logged during its steps, besides kind and id; no secrets."""
        return {}

    def host_of(self, row: Row) -> str:
        """The host whose files the next step needs, as `common.hosts` names it; empty: none.

        Asked at every claim: cheap and without effects. A step is only taken by a process of that host.
        """
        return ""

    def backoff(self, attempts: int) -> timedelta:
        """Delay after the `attempts`-th failure in a row: 1, 2, 4, 8 ... s, at most a minute."""
        return backoff(attempts, first=timedelta(seconds=1), longest=timedelta(minutes=1))

    def on_move(self, row: Row, to: str, note: Any) -> None:
        """Write the history, the audit row and the events of a move from `row.state`, in its transaction.

        The columns saved with it are in the database by then, and not on `row`.
        """

    def on_silent_host(self, host: str) -> Mapping[str, Any]:
        """Columns to save on rows that wait for a host which gives no sign of life."""
        return {}

    def on_stuck(self, row: Row, reason: str) -> Mapping[str, Any]:
        """Columns to save when the kernel gives up; history may be written here, in the same transaction."""
        return {}

    def on_revive(self, row: Row, by: str, reason: str) -> Mapping[str, Any]:
        """Take `on_stuck` back when a stuck row is tried again; in the same transaction, too."""
        return {}


def lane_at(what: str, url: str) -> str:
    """The lane of what answers at an address: `hub:huggingface.co`. Neither its path nor credentials show."""
    return f"{what}:{urlsplit(url).netloc.rpartition('@')[2].lower()}"


class Recurring(Step[Row], Reconciler[Row]):
    """Looks after its row every so often and does not give up: a reconciler that is its own only step.

    `observe` does the work, or `act` where it has an effect.
    """

    max_attempts: ClassVar[int | None] = None
    every: ClassVar[timedelta]

    def next_step(self, row: Row, now: datetime) -> Step[Row]:
        return self

    def settle(self, row: Row, seen: Any, now: datetime) -> StepOutcome:
        return wait(self.every)
