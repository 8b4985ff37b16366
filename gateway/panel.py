"""The panel of a gateway on its cluster's page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.utils.translation import gettext_lazy as _

from clusters.models import Cluster
from gateway import selectors
from gateway.models import Gateway

ABILITIES = {
    "mirror": _("Mirror all requests"),
    "mirror_percent": _("Mirror a share of the requests"),
    "cohort_cookie": _("Choose a cohort by a cookie"),
    "cohort_percent": _("Choose a share of a header's values"),
}
"""What steps of plans may ask of a gateway."""
_SHOWN_APART = frozenset({"gateway", "gateway_namespace", "section", "assume_features"})


@dataclass(frozen=True, slots=True)
class GatewayPanel:
    row: Gateway
    counted_by: str
    public_url: str
    parent: str
    """`NAMESPACE/NAME` of the Gateway, and its listener; empty: this kind has none."""
    assumed: Sequence[str]
    abilities: Sequence[tuple[str, str]]
    """What plans may ask for, and why this gateway cannot; empty: it can."""
    settings: Sequence[tuple[str, str]]


def panel_of(cluster: Cluster) -> GatewayPanel | None:
    """Return the panel; None: the cluster has no gateway."""
    row = selectors.gateway_of(cluster)
    if row is None:
        return None
    given = row.settings
    return GatewayPanel(
        row=row,
        counted_by=selectors.who_counts(row.metrics, given),
        public_url=selectors.public_url(row),
        parent=_parent(given) if "gateway" in given else "",
        assumed=given.get("assume_features", ()),
        abilities=[(str(words), row.cannot.get(name, "")) for name, words in ABILITIES.items()],
        settings=[(name, _text(value)) for name, value in given.items() if name not in _SHOWN_APART],
    )


def _parent(given: dict[str, Any]) -> str:
    namespace = given.get("gateway_namespace") or given.get("namespace", "slipway")
    section = given.get("section")
    return f"{namespace}/{given.get('gateway')}" + (f" ({section})" if section else "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
