"""The desired state of a deployment's row, as backends get it."""

from pathlib import Path

from django.conf import settings

from clusters.backends.base import DeploymentSpec, ModelFile, ModelVersion
from clusters.backends.pod_settings import PodSettings, ResourceSettings
from clusters.draining.surges import surge_of
from clusters.models import Deployment
from clusters.report_tokens import report_token_of
from models_registry.files import manifest_of


def spec_of(row: Deployment) -> DeploymentSpec:
    """Raises nothing; one query for what drains want of it."""
    pod = PodSettings.read(row.pod)
    surge = surge_of(row)
    return DeploymentSpec(
        name=row.name,
        service=row.service,
        version=version_of(row),
        engine=row.engine,
        replicas=row.replicas + surge.extra,
        prefetch_machines=row.prefetch_machines,
        slots=row.slots,
        device=row.device,
        settings=row.settings,
        image=row.image_reference,
        image_acceleration=row.image.acceleration if row.image else "",
        labels={"app.kubernetes.io/managed-by": "slipway", "slipway/service": row.service},
        resources=ResourceSettings.read(row.resources).resources(),
        placement=pod.placement(),
        grace_seconds=pod.grace_seconds,
        load_within_seconds=pod.load_within_seconds,
        environment=pod.env,
        secret_environment=pod.secrets(),
        server=pod.server_of(row.engine),
        pod_patch=row.pod_patch,
        nodes=pod.nodes_per_replica,
        scale_turn=row.generation if pod.replicas == "external" else None,
        report_token=report_token_of(row),
        leaving=surge.leaving,
    )


def version_of(row: Deployment) -> ModelVersion:
    files = manifest_of(row.version).files
    return ModelVersion(
        id=row.version_id,
        label=row.version_label,
        digest=row.version.digest or "",
        files=tuple(ModelFile(file.path, file.size, file.sha256) for file in files),
        source=settings.SLIPWAY_STORE or Path(settings.SLIPWAY_STORE_DIR).as_uri(),
    )
