"""What waits for a person among releases and services."""

from collections.abc import Iterator

from django.utils.translation import gettext as _

from common.actor import Actor
from common.pages.inbox import InboxEntry
from releases.selectors import services as service_selectors
from releases.selectors.pod_patches import patches_waiting_for
from releases.selectors.releases import verdict_of, waiting_for, waiting_for_what
from releases.states import PatchState, ReleaseState


def approvals(actor: Actor) -> Iterator[InboxEntry]:
    """Releases that this actor may approve."""
    for release in waiting_for(actor).prefetch_related("steps"):
        waiting = waiting_for_what(release)
        if waiting is None:
            continue
        verdict = verdict_of(release)
        yield InboxEntry(
            badge=("release", ReleaseState.WAITING_APPROVAL),
            title=_("%(version)s to %(service)s") % {"version": release.version, "service": release.service},
            url=f"/releases/{release.pk}/#decision",
            since=waiting.since,
            why=verdict.reason if verdict else "",
            notes=(
                _("requested by %(requester)s") % {"requester": release.requester},
                _("plan %(plan_name)s") % {"plan_name": release.plan_name},
                _("%(candidate_percent)s%% of the traffic")
                % {"candidate_percent": release.candidate_percent},
            ),
            is_decision=True,
            about=release,
        )


def pod_patches(actor: Actor) -> Iterator[InboxEntry]:
    """Patches of services' pods that this actor may approve."""
    for row in patches_waiting_for(actor):
        yield InboxEntry(
            badge=("pod_patch", PatchState.PROPOSED),
            title=_("Pods of %(service)s") % {"service": row.service.name},
            url=f"/services/{row.service.name}/pods/",
            since=row.proposed_at,
            why=row.reason,
            notes=(_("proposed by %(proposer)s") % {"proposer": row.proposer},),
            is_decision=True,
            about=row.service,
        )


def services_in_trouble(actor: Actor) -> Iterator[InboxEntry]:
    for one in service_selectors.services_in_trouble(actor):
        yield InboxEntry(
            badge=("service", one.summary.state),
            title=one.name,
            url=f"/services/{one.name}/",
            since=None,
            why=one.summary.reason,
            notes=(_("service"),),
        )
