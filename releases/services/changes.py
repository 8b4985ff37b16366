"""What of a service's settings its present workers do not have yet."""

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from images.models import RuntimeImage
from releases.models import Service
from releases.services.pod_patch import approved_patch

OF_WORKERS = ("engine", "device", "slots", "resources", "pod", "settings", "image")
"""Fields of a service that workers keep for as long as they run."""


def differs_from_stable(service: Service, *, image: RuntimeImage | None = None) -> bool:
    """Whether a release of the stable version itself would start other workers. `image`: of that release."""
    try:
        row = fleet.deployment(service.stable_deployment)
    except DeploymentMissing:
        return False
    wanted = image or service.image
    return (
        any(getattr(service, name) != getattr(row, name) for name in OF_WORKERS[:-1])
        or (wanted is not None and wanted.pk != row.image_id)
        or approved_patch(service) != row.pod_patch
    )
