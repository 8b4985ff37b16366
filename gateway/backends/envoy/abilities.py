"""Routes of abilities: one address, workers of several services. Pure."""

from collections.abc import Mapping

from gateway.routes import AbilitySpec, RouteSpec, RouteTarget

COUNTED_AS = "-/ability"
"""Route under which a deployment's requests by abilities are counted, whichever ability that was."""
METADATA = "slipway"
"""Envoy's metadata of a worker has its deployment and version under it."""


def ability_route(ability: str) -> str:
    """Return the name of its route; a service's name holds no slash."""
    return f"{ability}/ability"


def as_route(ability: AbilitySpec, routes: Mapping[str, RouteSpec]) -> RouteSpec:
    """Return a route with the ability's address: all paths, where every member has routes of its own."""
    found = [routes[one.service] for one in ability.members if one.service in routes]
    return RouteSpec(
        name=ability.name,
        stable=RouteTarget(ability.target, ""),
        candidate=None,
        candidate_percent=0,
        all_paths=bool(found) and all(one.all_paths for one in found),
    )


def shares(ability: AbilitySpec, routes: Mapping[str, RouteSpec]) -> dict[RouteTarget, int]:
    """Return weights of the candidates: by slots, as the share of their service is. `""` is all the rest."""
    rest, found = 0, {}
    for member in ability.members:
        spec = routes.get(member.service)
        if spec is None:
            continue
        percent = 0
        if spec.candidate is not None and spec.candidate.name == member.candidate:
            percent = spec.candidate_percent
            found[spec.candidate] = member.slots * percent
        rest += member.slots * (100 - percent)
    weighed = {target: weight for target, weight in found.items() if weight}
    return {RouteTarget(ability.target, ""): rest if weighed else 100, **weighed}
