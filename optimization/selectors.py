from models_registry.models import Version
from optimization.models import OptimizationRun


def run_that_made(version: Version) -> OptimizationRun | None:
    """Return the run whose recipe made the version; None: it came otherwise."""
    return OptimizationRun.objects.filter(child=version).first()
