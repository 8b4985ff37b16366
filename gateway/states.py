from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from clusters.states import ClusterKind


class GatewayKind(TextChoices):
    ENVOY = "envoy", _("Envoy by files")
    """On the machine of the control plane."""


ON_A_HOST = frozenset({GatewayKind.ENVOY})
"""They are told by files of one host."""


class MetricsKind(TextChoices):
    """Who counts what each version answered."""

    GATEWAY = "gateway", _("The gateway")
    WORKERS = "workers", _("The workers")
    """Each what it has answered itself; read from its `/metrics`."""


USUAL = {str(ClusterKind.EMBEDDED): GatewayKind.ENVOY}
"""What a cluster of this kind gets unless somebody says otherwise."""
