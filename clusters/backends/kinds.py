"""Abilities by the kind of a cluster. Nothing is connected, and no client of a cluster is imported."""

from collections.abc import Mapping

from clusters.backends.abilities import BackendAbilities
from clusters.backends.embedded.abilities import ABILITIES as EMBEDDED
from clusters.backends.kubernetes.abilities import ABILITIES as KUBERNETES
from clusters.states import ClusterKind

_BY_KIND: Mapping[str, BackendAbilities] = {
    ClusterKind.EMBEDDED: EMBEDDED,
    ClusterKind.KUBERNETES: KUBERNETES,
}

KINDS_TELLING_CONDITIONS = tuple(kind for kind, one in _BY_KIND.items() if one.tells_conditions)


def abilities_of(kind: str) -> BackendAbilities:
    """Return the abilities; an unknown kind has none."""
    return _BY_KIND.get(kind, BackendAbilities())
