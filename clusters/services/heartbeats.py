"""The door for workers that report by themselves, without an agent on their machine."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from accounts.actors import KnownActor, grants_of
from accounts.grants import Grants
from accounts.services.rights import require
from accounts.states import Right
from clusters.fleet import DeploymentRow
from clusters.heartbeat_store import HeartbeatStore, current_heartbeat_store
from clusters.models import ReportToken
from clusters.services.node_reports import RejectedHeartbeat, ReportReceipt, entry_name, not_as_deployed
from common import clock
from common.errors import Invalid, NotAllowed
from serving.protocol import MAX_WORKERS_PER_REPORT


@dataclass(frozen=True, slots=True)
class Reporter:
    """The workers that a token may report."""

    grants: Grants
    deployment_id: int | None = None
    """None: for those of all teams whose workers its owner may report."""

    def may_report(self, deployment: DeploymentRow) -> bool:
        if self.deployment_id not in (None, deployment.pk):
            return False
        return self.grants.may(Right.FLEET_REPORT, deployment.team_id)


def reporter_of(actor: KnownActor) -> Reporter:
    """Raises NotAllowed, OutOfScope."""
    require(actor, Right.FLEET_REPORT)
    own = ReportToken.objects.filter(token=actor.token_id).values_list("deployment", flat=True).first()
    return Reporter(grants_of(actor), own)


async def accept_heartbeats(document: object, *, reporter: Reporter) -> ReportReceipt:
    """Share the good heartbeats of `{"workers": [...]}`, or the one that the document is, with all processes;
    say what is wrong with others.

    A worker must be one that its cluster shows, for which the reporter speaks, and be what its deployment
    says it is. Nothing is written to the database. Raises Invalid when it is no batch, and NotAllowed when
    a heartbeat that came alone is refused.
    """
    is_alone = isinstance(document, dict) and "worker" in document
    entries = [document] if is_alone else document.get("workers") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise Invalid(fields={"workers": [_("Send a list of heartbeats.")]})
    if len(entries) > MAX_WORKERS_PER_REPORT:
        raise Invalid(
            fields={"workers": [_("Send at most %(most)s at once.") % {"most": MAX_WORKERS_PER_REPORT}]}
        )
    store = current_heartbeat_store()
    if entries:
        await store.rows()
    turn = round(clock.seconds() * 1000)
    refused = [
        RejectedHeartbeat(entry_name(entry, "worker"), reason)
        for entry in entries
        if (reason := _take(entry, store, reporter, turn))
    ]
    if is_alone and refused:
        # Whoever sends one looks at the status, and says in its log why it is not heard.
        raise NotAllowed(refused[0].reason)
    return ReportReceipt(len(entries) - len(refused), refused)


def _take(entry: object, store: HeartbeatStore, reporter: Reporter, turn: int) -> str:
    """Why not; empty when it was taken."""
    try:
        heartbeat = store.validated(entry)
    except ValueError as error:
        return f"{error}."
    placed = store.placed(heartbeat["worker"])
    if placed is None or not reporter.may_report(placed.deployment):
        return _("There is no worker %(worker)s for which you may report.") % {"worker": heartbeat["worker"]}
    reason = not_as_deployed(heartbeat, placed.deployment)
    if not reason:
        store.ingest(heartbeat, turn=turn)
    return reason
