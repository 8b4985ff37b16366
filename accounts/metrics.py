"""What Prometheus reads of webhooks and tokens."""

from collections.abc import Iterator

from django.db.models import Count, Q
from prometheus_client.metrics_core import Metric

from accounts import selectors
from accounts.models import WebhookDelivery, WebhookEndpoint
from accounts.states import DeliveryState
from common.metrics import gauge


def webhooks() -> Iterator[Metric]:
    """Yield the metrics of webhooks, by two queries."""
    counts = WebhookEndpoint.objects.aggregate(
        ok=Count("pk", filter=Q(enabled=True, failing_since=None)),
        failing=Count("pk", filter=Q(enabled=True, failing_since__isnull=False)),
        disabled=Count("pk", filter=Q(enabled=False)),
    )
    yield gauge(
        "webhook_endpoints",
        "Webhook endpoints: ok, failing, or disabled.",
        ("state",),
        [((state,), float(number)) for state, number in counts.items()],
    )
    rows = WebhookDelivery.objects.order_by().values_list("state").annotate(number=Count("pk"))
    found = dict(rows)
    yield gauge(
        "webhook_deliveries",
        "Webhook deliveries that are kept, by state.",
        ("state",),
        [((state,), float(found.get(state, 0))) for state in DeliveryState.values],
    )


def tokens() -> Iterator[Metric]:
    yield gauge(
        "tokens_expiring",
        "API tokens that were used in the last two weeks and end within one.",
        (),
        [((), float(len(selectors.expiring_tokens())))],
    )
