"""The candidate's deployment, as the steps that bring it up ask for it."""

from django.db import transaction

from clusters import selectors as fleet
from clusters.services import deployments
from releases.models import Release
from releases.reconcilers.base import ACTOR
from releases.selectors.adapters import wanted_adapters
from releases.services.pod_patch import approved_patch


def ensure_candidate(row: Release, *, replicas: int, prefetch_machines: int | None = None) -> None:
    """Raises ClusterRemoving, CodeNotAllowed, SignatureNotTrusted, NoImageFits."""
    service = row.service
    deployments.ensure_deployment(
        name=row.candidate_deployment,
        cluster=service.cluster,
        team=service.team,
        service=service.name,
        version=row.version,
        replicas=replicas,
        prefetch_machines=prefetch_machines,
        slots=service.slots,
        engine=service.engine,
        device=service.device,
        resources=service.resources,
        pod=service.pod,
        pod_patch=approved_patch(service),
        settings=service.settings,
        adapters=wanted_adapters(service),
        image=row.image or service.image,
        present_image=fleet.image_of(row.stable_deployment),
        op_key=f"release:{row.pk}",
        actor=ACTOR,
    )
    # Some may have come or gone while it was made.
    with transaction.atomic():
        deployments.set_adapters(service.name, wanted_adapters(service))
