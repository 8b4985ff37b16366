"""The parts of the stack, as they are supervised and as they answer, in one list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils.functional import Promise
from django.utils.text import format_lazy

from common.actor import Actor
from common.health import PartHealth, PartState
from controlplane.embedded.parts import TITLES, PartsReport, PartStatus, parts_status
from controlplane.health import parts_health
from controlplane.home.background import BackgroundValue

PATIENCE_SECONDS = 0.05
"""What a page gives the parts to answer; who is slower shows with its last answer."""
OLD_SECONDS = 5.0

ANSWERS: Mapping[str, tuple[str, ...]] = {
    "valkey": ("redis", "broker"),
    "gateway": ("gateway",),
    "worker": ("worker",),
    "sweeper": ("sweeper",),
}
"""Which questions of `controlplane.health` tell whether a supervised part does its work."""
STATES = {
    "starting": "starting",
    "running": "up",
    "restarting": "restarting",
    "stopping": "stopped",
    "stopped": "stopped",
    "failed": "down",
}


WELL = frozenset({"up", "starting", PartState.SLOW, PartState.OFF})


@dataclass(frozen=True, slots=True)
class PartRow:
    name: str
    title: str | Promise
    state: str
    """One of `the badges `part``."""
    detail: str | Promise
    """What it says of itself, or why it does not work."""
    since: datetime | None = None
    """When its process started; None: not known, or there is none."""
    restarts: int = 0
    last_exit: str = ""


@dataclass(frozen=True, slots=True)
class PartsStatus:
    rows: Sequence[PartRow] = ()
    problem: str = ""
    """Why less is known than should be, in words."""
    age_seconds: float = 0.0

    @property
    def is_pending(self) -> bool:
        """Nothing has answered yet: worth another look in a moment."""
        return not self.rows

    @property
    def is_old(self) -> bool:
        return self.age_seconds > OLD_SECONDS

    @property
    def in_trouble(self) -> int:
        return sum(row.state not in WELL for row in self.rows)

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Changes when the page should be drawn anew."""
        return (self.problem, *((row.name, row.state, row.restarts, row.last_exit) for row in self.rows))


_health: BackgroundValue[Mapping[str, PartHealth]] = BackgroundValue("home-health", parts_health)
_status: BackgroundValue[PartsReport] = BackgroundValue("home-parts", parts_status)


def parts_now(*, patience_seconds: float = PATIENCE_SECONDS) -> PartsStatus:
    """Return what is known of the parts. Never waits longer than twice that, never raises."""
    health = _health.latest(patience_seconds=patience_seconds)
    status = _status.latest(patience_seconds=patience_seconds)
    if health is None:
        return PartsStatus(problem="The parts have been asked and have not answered yet.")
    supervised = is_supervised()
    return merged(
        health.value,
        status.value if status and supervised else None,
        age_seconds=max(health.age_seconds, status.age_seconds if status else 0.0),
    )


def parts_card(actor: Actor) -> PartsStatus:  # noqa: ARG001 (everybody sees the same)
    return parts_now()


def is_supervised() -> bool:
    """Whether the parts run here, under the supervisor of the embedded stack."""
    return bool((settings.SLIPWAY_RUN_DIR / "control.sock").exists())


def merged(
    health: Mapping[str, PartHealth], report: PartsReport | None, *, age_seconds: float = 0.0
) -> PartsStatus:
    """Pure. `report` is None where others run the parts: then they are known by their answers."""
    if report is None or report.problem:
        rows = [_asked(name, answer) for name, answer in health.items()]
        return PartsStatus(rows, report.problem if report else "", age_seconds)
    rows = [_supervised(part, health) for part in report.parts]
    covered = {name for part in report.parts for name in ANSWERS.get(part.name, ())}
    rows += [_asked(name, answer) for name, answer in health.items() if name not in covered]
    return PartsStatus(rows, "", age_seconds)


def _asked(name: str, answer: PartHealth) -> PartRow:
    return PartRow(name, answer.title or name, answer.state, answer.detail)


def _supervised(part: PartStatus, health: Mapping[str, PartHealth]) -> PartRow:
    state = STATES.get(part.state, "unknown")
    answers = [health[name] for name in ANSWERS.get(part.name, ()) if name in health]
    wrong = [answer for answer in answers if answer.state is not PartState.UP]
    details = [answer.detail for answer in wrong or answers]
    detail = format_lazy("; ".join(["{}"] * len(details)), *details)
    if state == "up" and wrong:
        state = max((answer.state for answer in wrong), key=list(PartState).index)
    return PartRow(
        name=part.name,
        title=TITLES.get(part.name, part.title),
        state=state,
        detail=detail,
        since=part.since if part.up_for is not None else None,
        restarts=part.restarts,
        last_exit=part.last_exit,
    )
