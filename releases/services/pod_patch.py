"""Who changes the pod template of a service's workers, and who lets them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from clusters.backends.kinds import abilities_of
from clusters.backends.kubernetes.template_patch import patch_faults
from common import audit, events
from common.actor import Actor
from common.reconcile import kernel
from releases.errors import InvalidPatch, NotPossibleNow, SeparationOfDuties, UnknownPatch
from releases.events import ServiceChanged
from releases.models import PodPatch, Service
from releases.states import PatchState

LARGEST = 64_000
"""Characters of a patch."""


def propose_patch(service: Service, *, actor: Actor, patch: Mapping[str, Any], reason: str) -> PodPatch:
    """Ask that the next releases change their pods so; an empty patch takes the present one away.

    Raises NotAllowed, InvalidPatch (with faults per place), NotPossibleNow while another one is proposed.
    """
    require(actor, Right.SERVICES_WRITE, service.team, service=service.name)
    _check(service, patch)
    present = approved_patch(service)
    if dict(patch) == present:
        raise InvalidPatch(fields={"patch": [_("This is the patch that is in effect.")]})
    try:
        with transaction.atomic():
            row = PodPatch.objects.create(
                service=service,
                patch=dict(patch),
                reason=reason,
                proposed_by_id=actor.user_id,
                proposer=actor.name,
                proposed_at=kernel.clock(),
            )
            _record(row, actor=actor, action="propose", reason=reason)
    except IntegrityError:
        raise NotPossibleNow(
            _("A patch of the pods of %(service)s is proposed already: decide or withdraw it first.")
            % {"service": service.name}
        ) from None
    return row


def approve_patch(row: PodPatch, *, actor: Actor, reason: str) -> PodPatch:
    """Have the patch take effect from the next release on.

    Raises NotAllowed, SeparationOfDuties, NotPossibleNow, InvalidPatch when the cluster refuses it by now.
    """
    require(actor, Right.RELEASES_APPROVE, row.service.team, service=row.service.name)
    if actor.user_id is None:
        raise NotPossibleNow(_("Only a person can decide."))
    if actor.user_id == row.proposed_by_id:
        raise SeparationOfDuties(_("You proposed this patch, so somebody else must approve it."))
    _check(row.service, row.patch)
    with transaction.atomic():
        PodPatch.objects.filter(service=row.service, state=PatchState.APPROVED).update(
            state=PatchState.REPLACED
        )
        return _decide(row, PatchState.APPROVED, actor=actor, action="approve", reason=reason)


def reject_patch(row: PodPatch, *, actor: Actor, reason: str) -> PodPatch:
    """Raises NotAllowed, NotPossibleNow."""
    require(actor, Right.RELEASES_APPROVE, row.service.team, service=row.service.name)
    with transaction.atomic():
        return _decide(row, PatchState.REJECTED, actor=actor, action="reject", reason=reason)


def withdraw_patch(row: PodPatch, *, actor: Actor, reason: str = "") -> PodPatch:
    """Raises NotAllowed, NotPossibleNow."""
    require(actor, Right.SERVICES_WRITE, row.service.team, service=row.service.name)
    with transaction.atomic():
        return _decide(row, PatchState.WITHDRAWN, actor=actor, action="withdraw", reason=reason)


def patch_of(service: Service, pk: int) -> PodPatch:
    """Raises UnknownPatch."""
    rows = PodPatch.objects.select_related("service__team", "service__cluster")
    if (row := rows.filter(pk=pk, service=service).first()) is None:
        raise UnknownPatch(
            _("%(service)s has no patch %(number)s of its pods.") % {"service": service.name, "number": pk}
        )
    return row


def approved_patch(service: Service) -> dict[str, Any]:
    """Return what the next release changes of its pods; empty: nothing."""
    found = PodPatch.objects.filter(service=service, state=PatchState.APPROVED).first()
    return dict(found.patch) if found else {}


def _check(service: Service, patch: Mapping[str, Any]) -> None:
    if not abilities_of(service.cluster.kind).has_pods:
        words = _("Cluster %(cluster)s runs workers as processes of its machine: it has no pods.")
        raise InvalidPatch(fields={"patch": [words % {"cluster": service.cluster.name}]})
    if len(json.dumps(patch)) > LARGEST:
        raise InvalidPatch(
            fields={"patch": [_("It is longer than %(most)d characters.") % {"most": LARGEST}]}
        )
    settings = service.cluster.settings
    found = patch_faults(
        patch, allows=settings.get("patch_allows", ()), secrets=settings.get("env_secrets", ())
    )
    if found:
        raise InvalidPatch(
            fields={f"patch.{place}" if place else "patch": said for place, said in found.items()}
        )


def _decide(row: PodPatch, state: PatchState, *, actor: Actor, action: str, reason: str) -> PodPatch:
    decided = PodPatch.objects.filter(pk=row.pk, state=PatchState.PROPOSED).update(
        state=state,
        decided_by_id=actor.user_id,
        decider=actor.name,
        decided_at=kernel.clock(),
        decision_reason=reason,
    )
    if not decided:
        raise NotPossibleNow(_("Somebody has decided already."))
    row.refresh_from_db()
    _record(row, actor=actor, action=action, reason=reason)
    return row


def _record(row: PodPatch, *, actor: Actor, action: str, reason: str) -> None:
    text = json.dumps(row.patch, sort_keys=True, separators=(",", ":"))
    audit.record(
        actor,
        f"service.pod_patch.{action}",
        subject=row.service,
        team_id=row.service.team_id,
        reason=reason,
        detail={"pod_patch": row.pk, "sha256": hashlib.sha256(text.encode()).hexdigest(), "patch": row.patch},
    )
    events.publish(ServiceChanged(row.service_id))
