"""When the agents of machines were heard, and what their silence excuses. Pure: no clock, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from serving.protocol import LOST_AFTER_SECONDS

SILENT_AFTER = timedelta(seconds=15)
"""Longer than a web takes to start anew: until then nobody is told of a silent agent."""
RELAY_SILENT_AFTER = timedelta(minutes=1)
"""A pod of it that starts anew, on another machine say, takes that long."""
LOOKED_WITHIN = timedelta(seconds=15)
"""For so long what the backend saw of a worker stands in for the reports of a silent agent."""


@dataclass(frozen=True, slots=True)
class AgentContact:
    """The agent of one machine."""

    age_seconds: float | None = None
    """Since its last report; None: it was not heard within the last minute."""
    began_seconds: float = 0.0
    """Since the first of the reports that came without a break up to the last."""

    @classmethod
    def of_record(cls, record: Mapping[str, Any], *, age_seconds: float, now: float) -> "AgentContact":
        """`record` as `clusters.heartbeat_store` shares it; `now` in seconds since 1970."""
        return cls(age_seconds, max(age_seconds, now - record.get("since", 0.0)))

    def noticed(self, silent_seconds: float) -> float:
        """Return the part of a worker's silence that the agent was there to notice: a worker cannot be heard
        before the agent began or after it fell silent itself.
        """
        if self.age_seconds is None:
            return 0.0
        return max(0.0, min(silent_seconds, self.began_seconds) - self.age_seconds)


def agent_key(cluster_id: int, node_uid: str) -> str:
    """Return the key under which the reports of a machine's agent are shared."""
    return f"{cluster_id}/{node_uid}"


def relay_key(cluster_id: int) -> str:
    """Return the key under which the reports of a cluster's relay are shared, in place of those of agents."""
    return f"{cluster_id}//relay"


def never_heard_key(cluster_id: int) -> str:
    """Return the key that stands in an agent's place for workers that report to nobody: the backend alone
    knows them, and their silence means nothing.
    """
    return f"{cluster_id}/-"


def silent_since(heard: AgentContact | None, noted: datetime | None, *, now: datetime) -> datetime | None:
    """Return the time to store as the start of the silence. `heard` None: the machine has no agent."""
    if heard is None:
        return None
    if heard.age_seconds is None:
        return noted or now
    if heard.age_seconds <= LOST_AFTER_SECONDS:
        return None
    return noted or now - timedelta(seconds=heard.age_seconds)


def is_silent(since: datetime | None, *, now: datetime) -> bool:
    """`since` as in `Node.agent_silent_since`."""
    return since is not None and now - since >= SILENT_AFTER
