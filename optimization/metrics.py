"""What Prometheus reads of optimised versions."""

from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.metrics_core import Metric

from common.metrics import gauge
from optimization.models import OptimizationRun
from optimization.states import OptimizationState


def optimizations_by_state() -> Iterator[Metric]:
    counted = OptimizationRun.objects.order_by().values_list("state").annotate(count=Count("pk"))
    found = dict(counted)
    samples = [((state,), float(found.get(state, 0))) for state in OptimizationState.values]
    yield gauge("optimizations", "Runs that make optimised versions, by state.", ("state",), samples)
