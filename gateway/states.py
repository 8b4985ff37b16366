from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class GatewayKind(TextChoices):
    ENVOY = "envoy", _("Envoy by files")
    """On the machine of the control plane."""
    GATEWAY_API = "gateway_api", _("Gateway API")
    """A Gateway that a Kubernetes cluster has, told by HTTPRoutes."""


ON_A_HOST = frozenset({GatewayKind.ENVOY})
"""They are told by files of one host."""


COUNTS_ITSELF = frozenset({GatewayKind.ENVOY})
"""They can be asked what they have sent."""


class MetricsKind(TextChoices):
    """Who counts what each version answered."""

    GATEWAY = "gateway", _("The gateway")
    WORKERS = "workers", _("The workers")
    """Each what it has answered itself; read from its `/metrics`."""
    PROMETHEUS = "prometheus", _("Prometheus")
    """The same, as the cluster's Prometheus has scraped it."""
    ENVOY = "envoy", _("The Envoys of the Gateway")
    """Each what it has sent, read from its `/stats/prometheus`."""


class AbilityState(TextChoices):
    PENDING = "pending", _("Pending")
    """The gateway has not taken it yet."""
    SERVING = "serving", _("Serving")
    NO_WORKERS = "no_workers", _("No workers")


KNOWS_KEYS = frozenset({GatewayKind.ENVOY})
"""They check keys of clients, and count by them."""


COUNT_ANSWERS_ALONE = frozenset({MetricsKind.WORKERS, MetricsKind.PROMETHEUS})
"""They know what workers have answered, and nothing of requests that no worker got."""
