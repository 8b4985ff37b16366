"""What waits for this person: approvals to give, and what is stuck or failing until somebody looks."""

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.selectors import may_everywhere
from accounts.states import Right
from accounts.stuck import Stuck, everything_stuck
from common import disk
from common.actor import Actor
from common.disk import DiskState
from common.disk_watch import changed_at
from common.pages.disk_notice import words
from models_registry import selectors as registry
from models_registry.states import FindingState
from releases import selectors as releases
from releases.models import Release
from releases.states import ReleaseState

LOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Task:
    subject: str
    state: str
    """Both as `common.pages.looks` names them."""
    title: str
    url: str
    since: datetime | None
    why: str
    detail: str = ""
    release: Release | None = None
    stuck: Stuck | None = None
    """What may be tried again or answered."""

    @property
    def is_approval(self) -> bool:
        return (self.subject, self.state) == ("release", ReleaseState.WAITING_APPROVAL)


def inbox(actor: Actor) -> list[Task]:
    """Oldest first: who waits longest is served first."""
    tasks = [*_approvals(actor), *_services(actor), *_stuck(actor), *_lost(actor), *_disk(actor)]
    return sorted(tasks, key=lambda task: (task.since is None, task.since))


def _approvals(actor: Actor) -> list[Task]:
    tasks = []
    for release in releases.waiting_for(actor).prefetch_related("steps"):
        waiting = releases.waiting_for_what(release)
        if waiting is None:
            continue
        verdict = releases.verdict_of(release)
        tasks.append(
            Task(
                "release",
                ReleaseState.WAITING_APPROVAL,
                _("%(version)s to %(service)s") % {"version": release.version, "service": release.service},
                f"/releases/{release.pk}/#decision",
                waiting.since,
                verdict.reason if verdict else "",
                _("requested by %(requester)s") % {"requester": release.requester},
                release,
            )
        )
    return tasks


def _services(actor: Actor) -> list[Task]:
    return [
        Task(
            "service",
            one.summary.state,
            one.name,
            f"/services/{one.name}/",
            None,
            one.summary.reason,
            _("service"),
        )
        for one in releases.services_in_trouble(actor)
    ]


def _stuck(actor: Actor) -> list[Task]:
    """Of every kind that the kernel knows."""
    return [
        Task("work", one.state, one.title, one.url, one.since, one.why, stuck=one)
        for one in everything_stuck(actor, only_mine=True)
    ]


def _lost(actor: Actor) -> list[Task]:
    """Files that are gone for good, for those who look after the store."""
    if not may_everywhere(actor, Right.FLEET_OPERATE):
        return []
    lost = registry.findings().filter(state=FindingState.LOST, stuck_at__isnull=True)
    return [
        Task(
            "finding",
            FindingState.LOST,
            _("Lost file %(sha256)s") % {"sha256": row.sha256[:12]},
            reverse("store-page"),
            row.found_at,
            row.reason,
            _("store"),
        )
        for row in lost[:LOST_SHOWN]
    ]


def _disk(actor: Actor) -> list[Task]:
    """For those who look after the machine."""
    if not may_everywhere(actor, Right.FLEET_OPERATE):
        return []
    try:
        room = disk.room()
    except OSError:
        return [Task("part", "down", _("Disk"), reverse("store-page"), None, words())]
    if room.state is DiskState.OK:
        return []
    return [Task("disk", room.state, str(room.path), reverse("store-page"), changed_at(room), words())]
