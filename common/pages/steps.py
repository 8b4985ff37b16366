"""A release plan as a strip of steps."""

from dataclasses import dataclass
from datetime import datetime

from common.pages.badges import Badge, badge_of


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as the strip shows it. `state` is one of the badges `step`."""

    icon: str
    name: str
    state: str
    detail: str = ""
    """What it does or waits for, in a few words: `25% to the candidate`."""
    began_at: datetime | None = None
    ended_at: datetime | None = None
    actor: str = ""
    note: str = ""
    """How it went."""

    @property
    def badge(self) -> Badge:
        return badge_of("step", self.state)

    @property
    def is_current(self) -> bool:
        return self.state in ("running", "waiting", "paused", "stuck")
