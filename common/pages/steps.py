"""A release plan as a strip of steps."""

from dataclasses import dataclass
from datetime import datetime

from common.pages.badges import Badge, badge_of

ICONS = {
    "scan": "shield-search",
    "smoke_test": "flame",
    "deploy": "server-bolt",
    "weight": "arrows-split",
    "hold": "hourglass",
    "judge": "scale",
    "approval": "user-check",
    "promote": "rocket",
}


@dataclass(frozen=True, slots=True)
class StepView:
    """One step as the strip shows it. `state` is one of the badges `step`."""

    kind: str
    name: str
    state: str
    detail: str = ""
    """What it does or waits for, in a few words: `25% to the candidate`."""
    began_at: datetime | None = None
    ended_at: datetime | None = None
    actor: str = ""

    @property
    def icon(self) -> str:
        return ICONS.get(self.kind, "circle-dot")

    @property
    def badge(self) -> Badge:
        return badge_of("step", self.state)

    @property
    def is_current(self) -> bool:
        return self.state in ("running", "waiting", "paused", "stuck")
