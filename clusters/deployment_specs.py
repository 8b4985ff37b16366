"""The desired state of a deployment's row, as backends get it."""

from pathlib import Path

from django.conf import settings

from clusters.backends.base import DeploymentSpec, ModelFile, ModelVersion
from clusters.backends.pod_settings import PodSettings, ResourceSettings
from clusters.draining.surges import surge_of
from clusters.models import Deployment
from clusters.report_tokens import report_token_of
from models_registry.files import laid_out, manifest_of
from models_registry.models import Version
from serving.protocol import ENGINES_WITH_ROUTES


def spec_of(row: Deployment) -> DeploymentSpec:
    """Raises nothing; one query for what drains want of it."""
    pod = PodSettings.read(row.pod)
    surge = surge_of(row)
    return DeploymentSpec(
        name=row.name,
        service=row.service,
        version=version_of(row.version, row.version_label, runs_graphs=row.engine in ENGINES_WITH_ROUTES),
        engine=row.engine,
        replicas=row.replicas + surge.extra,
        prefetch_machines=row.prefetch_machines,
        slots=row.slots,
        device=row.device,
        settings=row.settings,
        adapters=_adapters(row),
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
        scale_turn=row.generation,
        leaves_scale=row.leaves_scale,
        report_token=report_token_of(row),
        leaving=surge.leaving,
    )


def _adapters(row: Deployment) -> dict[str, ModelVersion]:
    """Return the adapters by name; one query more where there are any."""
    if not row.adapters:
        return {}
    found = Version.objects.in_bulk([one["version"] for one in row.adapters.values()])
    return {
        name: version_of(found[one["version"]], one["label"])
        for name, one in row.adapters.items()
        if one["version"] in found
    }


def version_of(version: Version, label: str, *, runs_graphs: bool = False) -> ModelVersion:
    """Add the files that tasks of its graph load, where its engine runs graphs."""
    digest, manifest = laid_out(version) if runs_graphs else (version.digest or "", manifest_of(version))
    return ModelVersion(
        id=version.pk,
        label=label,
        digest=digest,
        files=tuple(ModelFile(file.path, file.size, file.sha256) for file in manifest.files),
        source=settings.SLIPWAY_STORE or Path(settings.SLIPWAY_STORE_DIR).as_uri(),
    )
