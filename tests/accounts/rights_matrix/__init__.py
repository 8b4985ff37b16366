"""Who may call which route of the REST API. A route that is missing here fails `test_rights_matrix.py`.

To add one: name its method and path as the URLconf has it, the right it needs in the team that owns the
object (or one of `Access`), how to fill its path and its body for a scene, and the status on success.
"""

from tests.accounts.rights_matrix import (
    accounts,
    clusters,
    gpu_drills,
    gpu_healing,
    gpu_health,
    identity,
    images,
    models_registry,
    releases,
)
from tests.accounts.rights_matrix.scene import Access, Route, Scene

ROUTES = [
    *accounts.ROUTES,
    *identity.ROUTES,
    *models_registry.ROUTES,
    *images.ROUTES,
    *clusters.ROUTES,
    *gpu_drills.ROUTES,
    *gpu_healing.ROUTES,
    *gpu_health.ROUTES,
    *releases.ROUTES,
]

__all__ = ["ROUTES", "Access", "Route", "Scene"]
