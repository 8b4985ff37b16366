from datetime import datetime

from django.db.models import Sum

from accounts.models import Team
from models_registry.models import Version
from optimization.models import OptimizationRun


def run_that_made(version: Version) -> OptimizationRun | None:
    """Return the run whose recipe made the version; None: it came otherwise."""
    return OptimizationRun.objects.filter(child=version).first()


def gpu_hours(team: Team, since: datetime) -> float:
    """Return the GPU hours of recipes' Jobs of the team's runs that began since then."""
    rows = OptimizationRun.objects.filter(team=team, created_at__gte=since)
    return (rows.aggregate(total=Sum("gpu_seconds"))["total"] or 0.0) / 3600
