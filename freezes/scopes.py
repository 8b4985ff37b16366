"""Whether there is anything that a freeze concerns: an app above, which has the services, says so."""

from collections.abc import Callable

from freezes.models import Freeze

ConcernsAny = Callable[[Freeze], bool]
_registered: list[ConcernsAny] = []


def register_concerned(concerns_any: ConcernsAny) -> None:
    _registered.append(concerns_any)


def concerns_nothing(row: Freeze) -> bool:
    """Whether it names a service, a stage or a cluster, and no service is meant by that yet."""
    is_narrow = bool(row.service or row.stage or row.cluster_id)
    return is_narrow and bool(_registered) and not any(concerns_any(row) for concerns_any in _registered)
