from collections.abc import Collection, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from clusters import selectors
from clusters.errors import (
    DeploymentGone,
    FleetNameTaken,
    InvalidDeployment,
    ScaleNotForeign,
    StaleScale,
)
from clusters.events import WorkersChanged
from clusters.images import pick_image
from clusters.models import MAX_REPLICAS, Cluster, Deployment, Worker
from clusters.services.cluster_removal import refuse_if_it_goes
from clusters.states import GONE, DeploymentState
from common import audit, clock, events
from common.actor import Actor
from common.errors import Missing
from common.live.touch import touch
from common.reconcile import kernel
from images.models import RuntimeImage
from models_registry.exemptions import check_code
from models_registry.models import Version
from models_registry.selectors import versions
from models_registry.signature_verification import check_signature


def ensure_deployment(
    *,
    actor: Actor,
    name: str,
    op_key: str,
    cluster: Cluster,
    team: Team,
    service: str,
    version: Version,
    replicas: int,
    slots: int,
    engine: str,
    device: str = "auto",
    resources: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    pod_patch: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    adapters: Mapping[str, Any] | None = None,
    image: RuntimeImage | None = None,
    present_image: RuntimeImage | None = None,
    prefetch_machines: int | None = None,
) -> Deployment:
    """Create the deployment under its deterministic name; its workers follow.

    What the same `op_key` has made is returned as it is now, however often it is asked for. Raises
    FleetNameTaken when another operation made one of this name, DeploymentGone when it was removed
    since, ValidationError, NotAllowed, Missing when the cluster is another team's, ClusterRemoving when it is
    being removed, CodeNotAllowed, SignatureNotTrusted, NoImageFits.

    With no `replicas` and `prefetch_machines`, its files come to so many machines, 0: to all that could run
    it.
    Its workers run `image`, or `present_image` as long as it runs this, or the one of the catalogue that fits
    best; the row keeps which and why.
    """
    require(actor, Right.FLEET_OPERATE, team)
    if cluster.team_id not in (None, team.pk):
        raise Missing(
            _("Team %(team)s has no cluster %(cluster)s.") % {"team": team.name, "cluster": cluster.name}
        )
    now = kernel.clock()
    wanted = Deployment(
        created_at=now,
        state_since=now,
        name=name,
        cluster=cluster,
        team=team,
        service=service,
        version=version,
        version_label=str(version),
        engine=engine,
        replicas=replicas,
        prefetch_machines=prefetch_machines,
        slots=slots,
        device=device,
        resources=dict(resources or {}),
        pod=dict(pod or {}),
        pod_patch=dict(pod_patch or {}),
        settings=dict(settings or {}),
        adapters=dict(adapters or {}),
        op_key=op_key,
        created_by=actor.name,
    )
    wanted.clean_fields(exclude=("resources", "pod", "pod_patch", "settings", "adapters"))
    with transaction.atomic():
        existing = Deployment.objects.filter(name=name).first()
        if existing is None:
            refuse_if_it_goes(cluster)
            check_code(version, at=now)
            check_signature(version)
            picked = pick_image(wanted, named=image, present=present_image)
            wanted.image, wanted.image_reference = picked.image, picked.reference
            wanted.image_reason = picked.reason
            existing = _create(wanted, actor=actor)
    if existing is None:
        wanted.refresh_from_db()
        return wanted
    if existing.op_key != op_key:
        raise FleetNameTaken(
            _("There is another deployment with the name %(name)s: %(created_by)s made it.")
            % {"name": name, "created_by": existing.created_by}
        )
    if existing.state in GONE:
        raise DeploymentGone(
            _("The deployment %(name)s has been removed. Make one with a new name.") % {"name": name}
        )
    return existing


def _create(wanted: Deployment, *, actor: Actor) -> Deployment | None:
    """Create the row; return None, or the other row when somebody was first."""
    try:
        with transaction.atomic():
            wanted.save(force_insert=True)
    except IntegrityError:
        existing = Deployment.objects.filter(name=wanted.name).first()
        if existing is None:
            raise
        return existing
    kernel.wake(wanted)
    detail = {
        "version": wanted.version_label,
        "replicas": wanted.replicas,
        "engine": wanted.engine,
        "image": wanted.image_reference,
    }
    audit.record(actor, "deployment.create", subject=wanted, detail=detail, team_id=wanted.team_id)
    touch("fleet")
    return None


def scale_deployment(
    *, actor: Actor, name: str, replicas: int, fence: int | None = None, reason: str = ""
) -> Deployment:
    """Want this many workers; those beyond get no more requests, and are drained and stopped.

    `fence` is that of the row on whose behalf it is asked, None for a person's wish. Raises StaleScale when a
    higher one was here, DeploymentMissing, DeploymentGone, InvalidDeployment, NotAllowed.
    """
    row = selectors.deployment(name)
    require(actor, Right.FLEET_OPERATE, row.team_id)
    if not 0 <= replicas <= MAX_REPLICAS:
        raise InvalidDeployment(
            fields={"replicas": [_("Choose from 0 to %(max_replicas)s.") % {"max_replicas": MAX_REPLICAS}]}
        )
    with transaction.atomic():
        same = Deployment.objects.filter(pk=row.pk, scale_fence__lte=fence or 0)
        if fence is not None and not same.update(scale_fence=fence):
            raise StaleScale(
                _("A later step has already said how many workers %(name)s is to have.") % {"name": name}
            )
        row.refresh_from_db()
        before = row.replicas
        is_overruled = not row.leaves_scale and row.observed_replicas is not None
        if row.state not in GONE and before == replicas and not is_overruled:
            return row
        where = {"replicas": before, "removal_asked_at__isnull": True}
        wish = {
            "replicas": replicas,
            "observed_replicas": None,
            "replicas_by": "",
            "generation": F("generation") + 1,
        }
        if not kernel.wake(row, where=where, **wish):
            row.refresh_from_db()
            if row.state in GONE:
                raise DeploymentGone(_("The deployment %(name)s has been removed.") % {"name": name})
            raise FleetNameTaken(
                _("Someone else scaled %(name)s at the same moment, to %(replicas)s. Try again.")
                % {"name": name, "replicas": row.replicas}
            )
        audit.record(
            actor,
            "deployment.scale",
            subject=row,
            reason=reason,
            detail={"from": before, "to": replicas},
            team_id=row.team_id,
        )
        touch("fleet")
    row.refresh_from_db()
    return row


def take_back_scale(row: Deployment, *, actor: Actor, reason: str = "") -> Deployment:
    """Set its workers again to what Slipway wishes.

    Raises NotAllowed, and ScaleNotForeign where nobody has set them past Slipway, or where that is left to
    others.
    """
    require(actor, Right.FLEET_OPERATE, row.team_id)
    if row.leaves_scale or row.observed_replicas is None:
        ours = _("The workers of %(name)s were not set past Slipway: there is nothing to take back.")
        raise ScaleNotForeign(ours % {"name": row.name})
    return scale_deployment(actor=actor, name=row.name, replicas=row.replicas, reason=reason)


def set_adapters(service: str, adapters: Mapping[str, Any]) -> None:
    """Have the workers of all deployments of the service load these LoRA adapters and no others, as
    `models.Deployment.adapters` has them. For inside a transaction, by whoever has audited it."""
    rows = Deployment.objects.filter(service=service, removal_asked_at=None)
    for row in rows.exclude(state__in=GONE):
        if row.adapters != adapters:
            kernel.interrupt(
                row,
                where={"removal_asked_at__isnull": True},
                adapters=dict(adapters),
                applied_generation=0,
            )


def set_offline_workers(*, name: str, offline: Collection[str]) -> bool:
    """Have these workers, by their ids, get no requests, and all others get them; whether that is new.

    For inside a transaction; the gateway is told by whoever calls. Raises DeploymentMissing.
    """
    row = selectors.deployment(name)
    workers = Worker.objects.filter(deployment=row)
    now = clock.now()
    changed = workers.filter(offline_since=None, uid__in=offline).update(offline_since=now)
    changed += workers.filter(offline_since__isnull=False).exclude(uid__in=offline).update(offline_since=None)
    if changed:
        Deployment.objects.filter(pk=row.pk).update(redirected_at=now)
        events.publish(WorkersChanged(row.pk))
        touch("fleet")
    return bool(changed)


def lay_out_again(blob: str) -> None:
    """Make the directories of versions that need this blob (its sha256) anew, before a worker asks for them.

    Of those that are whole by now: the last repair of a version is the one that counts. Workers that run are
    left alone, for they keep what they have opened.
    """
    serving = Deployment.objects.filter(version__in=versions.versions_needing(blob).values("pk"))
    for row in serving.filter(removal_asked_at=None).select_related("version"):
        if not versions.damages(row.version):
            # An `Apply` in mid-step may have seen the old directory: its write must fail.
            kernel.interrupt(row, where={"removal_asked_at__isnull": True}, applied_generation=0)


def remove_deployment(*, actor: Actor, name: str, reason: str) -> None:
    """Stop sending requests to its workers; then they drain and end. Twice is once.

    Whatever is being done to it is interrupted. Raises DeploymentMissing, NotAllowed.
    """
    row = selectors.deployment(name)
    require(actor, Right.FLEET_OPERATE, row.team_id)
    now = kernel.clock()
    with transaction.atomic():
        is_first = kernel.interrupt(
            row,
            where={"removal_asked_at__isnull": True},
            removal_asked_at=now,
            state=DeploymentState.REMOVING,
            state_since=now,
            reason=reason,
        )
        if not is_first:
            return
        audit.record(actor, "deployment.remove", subject=row, reason=reason, team_id=row.team_id)
        events.publish(WorkersChanged(row.pk))
        touch("fleet")
