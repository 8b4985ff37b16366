"""What waits for this person: approvals to give, and what is stuck until somebody looks."""

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.selectors import may_everywhere
from accounts.states import Right
from clusters.models import Deployment
from common import disk
from common.actor import Actor
from common.disk import DiskState
from common.disk_watch import changed_at
from common.pages.disk_notice import words
from common.reconcile import Reconciled
from models_registry import selectors as registry
from models_registry.models import Model, RetentionRule
from models_registry.states import FindingState
from releases import selectors as releases
from releases.models import Release
from releases.states import ReleaseState

STUCK_SHOWN = 20


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

    @property
    def is_approval(self) -> bool:
        return (self.subject, self.state) == ("release", ReleaseState.WAITING_APPROVAL)


def inbox(actor: Actor) -> list[Task]:
    """Oldest first: who waits longest is served first."""
    tasks = [
        *_releases(actor),
        *_services(actor),
        *_deployments(actor),
        *_imports(actor),
        *_hubs(actor),
        *_rules(actor),
        *_store(actor),
        *_disk(actor),
    ]
    return sorted(tasks, key=lambda task: (task.since is None, task.since))


def _releases(actor: Actor) -> list[Task]:
    tasks = []
    for release in releases.waiting_for(actor).prefetch_related("steps"):
        waiting = releases.waiting_for_what(release)
        if waiting is None:
            continue
        verdict = releases.verdict_of(release)
        is_stuck = release.state == ReleaseState.STUCK
        tasks.append(
            Task(
                "release",
                release.state if is_stuck else ReleaseState.WAITING_APPROVAL,
                _("%(version)s to %(service)s") % {"version": release.version, "service": release.service},
                f"/releases/{release.pk}/#decision",
                waiting.since,
                waiting.why if is_stuck else (verdict.reason if verdict else ""),
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


def _deployments(actor: Actor) -> list[Task]:
    rows = Deployment.objects.for_actor(actor, Right.FLEET_OPERATE).filter(stuck_at__isnull=False)
    return [
        _stuck(
            row,
            _("Deployment %(row)s") % {"row": row.name},
            "/fleet/",
            _("service %(service)s") % {"service": row.service},
        )
        for row in rows.order_by("stuck_at")[:STUCK_SHOWN]
    ]


def _imports(actor: Actor) -> list[Task]:
    rows = registry.importing(actor).filter(stuck_at__isnull=False)
    return [
        _stuck(row, _("Import of %(row)s") % {"row": row}, f"/models/{row.model.name}/{row.name}/")
        for row in rows[:STUCK_SHOWN]
    ]


def _hubs(actor: Actor) -> list[Task]:
    syncs = registry.hub_syncs(actor).filter(stuck_at__isnull=False)
    sources = registry.hub_sources(actor).filter(stuck_at__isnull=False)
    return [
        *(
            _of_model(
                row, _("Sync of %(source)s") % {"source": row.source}, row.source.model, "hub-sync", row.pk
            )
            for row in syncs[:STUCK_SHOWN]
        ),
        *(
            _of_model(row, _("Schedule of %(row)s") % {"row": row}, row.model, "model-hub")
            for row in sources[:STUCK_SHOWN]
        ),
    ]


def _rules(actor: Actor) -> list[Task]:
    rows = RetentionRule.objects.for_actor(actor).filter(stuck_at__isnull=False).select_related("model")
    return [
        _of_model(row, _("Retention rule of %(model)s") % {"model": row.model}, row.model, "model-retention")
        for row in rows[:STUCK_SHOWN]
    ]


def _store(actor: Actor) -> list[Task]:
    """For those who look after the store: what is stuck there, and what is lost."""
    if not may_everywhere(actor, Right.FLEET_OPERATE):
        return []
    address = reverse("store-page")
    stuck = [
        row
        for rows in (registry.collections(), registry.checks(), registry.findings())
        for row in rows.filter(stuck_at__isnull=False)[:STUCK_SHOWN]
    ]
    lost = registry.findings().filter(state=FindingState.LOST, stuck_at__isnull=True)
    return [
        *(_stuck(row, str(row).capitalize(), address, "store") for row in stuck),
        *(
            Task(
                "finding",
                row.state,
                _("Lost file %(sha256)s") % {"sha256": row.sha256[:12]},
                address,
                row.found_at,
                row.reason,
                "store",
            )
            for row in lost[:STUCK_SHOWN]
        ),
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


def _stuck(row: Reconciled, title: str, url: str, detail: str = "") -> Task:
    return Task("alert", "stuck", title, url, row.stuck_at, row.last_error, detail)


def _of_model(row: Reconciled, title: str, model: Model, page: str, *ids: int) -> Task:
    return _stuck(
        row, title, reverse(page, args=[model.name, *ids]), _("model %(model)s") % {"model": model.name}
    )
