"""An Event of the API, as what a cluster told. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from clusters.backends.kubernetes_events import LONGEST_MESSAGE, KubernetesEvent


def event_of(event: Mapping[str, Any]) -> KubernetesEvent:
    """Read an event of either form: with a count, or with a series (events.k8s.io)."""
    about, series = event.get("involvedObject") or {}, event.get("series") or {}
    first = (
        event.get("firstTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    )
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or first
    return KubernetesEvent(
        kind=str(about.get("kind", "")),
        name=str(about.get("name", "")),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or event.get("note") or "")[:LONGEST_MESSAGE],
        is_warning=event.get("type") == "Warning",
        count=int(series.get("count") or event.get("count") or 1),
        first_at=_time(first),
        last_at=_time(last),
        by=str(event.get("reportingComponent") or (event.get("source") or {}).get("component") or ""),
        uid=str(about.get("uid") or ""),
        host=str((event.get("source") or {}).get("host") or event.get("reportingInstance") or ""),
    )


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
