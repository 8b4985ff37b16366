"""The split of a route at a time in the past, from the audit record of its changes, which is never pruned."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from common.models import AuditRecord
from gateway.models import Route


@dataclass(frozen=True, slots=True)
class PastSplit:
    """The desired split at a time, and the audit entries that prove it."""

    stable: str
    """`model:version`"""
    stable_since: datetime
    stable_writer: int
    """Id of the release that made it stable."""
    candidate: str
    """Empty: there was none."""
    candidate_percent: int
    cohort: Mapping[str, Any] | None
    since: datetime
    """Since when the split was this one."""
    writer: int
    """Id of the release that set it."""
    withheld_since: datetime | None
    """Since when stable got the candidate's requests too, as no worker of the candidate was ready."""
    entries: tuple[int, ...]
    """Sequence numbers in the audit record: the one that set the split, the one that made stable so."""


def split_at(service: str, at: datetime) -> PastSplit | None:
    """Return the split at a time; None: the service had no route then."""
    found: PastSplit | None = None
    latest: Any = None
    is_same = True
    withheld: AuditRecord | None = None
    for row in _changes(service, at):
        if row.action in ("route.withhold", "route.restore"):
            withheld = withheld or row
            continue
        if row.action == "route.remove":
            break
        to, writer = row.detail["to"], row.detail["writer"]
        split = (to["stable_target"], to["candidate"], to["candidate_percent"], to.get("cohort"))
        if found is None:
            latest = split
            withheld = withheld or (row if row.detail.get("withheld") else None)
            found = PastSplit(
                stable=to["stable"],
                stable_since=row.at,
                stable_writer=writer,
                candidate=to["candidate"] or "",
                candidate_percent=to["candidate_percent"],
                cohort=to.get("cohort"),
                since=row.at,
                writer=writer,
                withheld_since=withheld.at if withheld and withheld.action != "route.restore" else None,
                entries=(row.seq, row.seq),
            )
        if split[0] != latest[0]:
            break
        is_same = is_same and split == latest
        found = replace(
            found,
            stable_since=row.at,
            stable_writer=writer,
            since=row.at if is_same else found.since,
            entries=(row.seq if is_same else found.entries[0], row.seq),
        )
    return found


def _changes(service: str, at: datetime) -> Iterator[AuditRecord]:
    """Changes of the route up to then that its gateway took, newest first."""
    rows = AuditRecord.objects.filter(
        subject_kind=Route._meta.label_lower,
        subject_label=service,
        action__in=("route.set", "route.refused", "route.remove", "route.withhold", "route.restore"),
        at__lte=at,
    )
    is_refused = False
    for row in rows.order_by("-seq").only("seq", "at", "action", "detail").iterator(chunk_size=100):
        if row.action == "route.refused":
            is_refused = True
        elif is_refused:
            # Nothing else changed in between: the route went back to what it was.
            is_refused = False
        else:
            yield row
