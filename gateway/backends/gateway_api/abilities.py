"""HTTPRoutes of abilities: one address over the Services of several services. Pure.

Weights follow the slots of the workers: an HTTPRoute knows no requests in flight, nor who has the fewest.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import gcd

from gateway.backends.gateway_api.documents import MANAGED_BY, Document, own_route
from gateway.backends.gateway_api.rules import Places, slug, split_rule, to_pool
from gateway.backends.gateway_api.settings import GatewayApiSettings
from gateway.errors import InvalidRoute
from gateway.routes import AbilitySpec, RouteSpec, RouteTarget

LABEL = "slipway.io/ability"
OBSERVED_AT = "slipway.io/observed-at"
"""Annotation: of the last change."""
MOST_BACKENDS = 16
"""Of a rule, by the Gateway API."""
HEAVIEST = 1_000_000


def object_name(ability: str) -> str:
    """Return the name of its HTTPRoute; that of a service's has no dot."""
    return f"slipway.ability.{slug(ability)}"


def weights(ability: AbilitySpec, routes: Mapping[str, RouteSpec]) -> dict[RouteTarget, int]:
    """Return the weights of the versions: their slots, a candidate's as the share of its service is.

    Raises InvalidRoute where there are more than a rule may have.
    """
    found: dict[RouteTarget, int] = {}
    for member in ability.members:
        if (spec := routes.get(member.service)) is None:
            continue
        is_shared = spec.candidate is not None and spec.candidate.name == member.candidate
        percent = spec.candidate_percent if is_shared else 0
        found[spec.stable] = member.slots * (100 - percent)
        if spec.candidate is not None and percent:
            found[spec.candidate] = member.slots * percent
    found = {target: weight for target, weight in found.items() if weight}
    if len(found) > MOST_BACKENDS:
        raise InvalidRoute(
            f"The ability {ability.name} has {len(found)} versions, and an HTTPRoute's rule {MOST_BACKENDS} "
            "backends at most: register it with fewer services."
        )
    return _scaled(found)


def _scaled(found: dict[RouteTarget, int]) -> dict[RouteTarget, int]:
    if not found:
        return {}
    by = max(gcd(*found.values()), -(-max(found.values()) // HEAVIEST))
    return {target: max(1, weight // by) for target, weight in found.items()}


def route_of(
    ability: AbilitySpec,
    shares: Mapping[RouteTarget, int],
    places: Places,
    *,
    all_paths: bool,
    timeout: str,
    observed_at: datetime,
    settings: GatewayApiSettings,
) -> Document:
    """Return the whole HTTPRoute."""
    made = own_route(object_name(ability.name), settings, {LABEL: slug(ability.name)})
    made["metadata"]["annotations"] = {OBSERVED_AT: observed_at.astimezone(UTC).isoformat()}
    rule = split_rule(
        ability.name,
        shares,
        places,
        all_paths=all_paths,
        home=settings.namespace,
        timeout=timeout,
        kind=to_pool if settings.inference_pools else None,
    )
    made["spec"]["rules"] = [rule]
    return made


def observed_at(document: Document) -> datetime:
    """Return when what it says was observed; long ago, where somebody took the word away."""
    said = (document["metadata"].get("annotations") or {}).get(OBSERVED_AT, "")
    try:
        return datetime.fromisoformat(said)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def leavers(documents: Iterable[Document], staying: Iterable[AbilitySpec]) -> list[Document]:
    """Return the HTTPRoutes of abilities that are no more."""
    kept = {object_name(one.name) for one in staying}
    return [one for one in documents if _is_ours(one) and one["metadata"]["name"] not in kept]


def _is_ours(document: Document) -> bool:
    labels = document["metadata"].get("labels") or {}
    return LABEL in labels and labels.get(MANAGED_BY) == "slipway"
