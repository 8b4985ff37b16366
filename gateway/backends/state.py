"""The gateway's last orders and their writers: routes, fences, and targets on their way in or out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from common.fence import Fence
from gateway.errors import GatewayError
from gateway.routes import AbilityMember, AbilitySpec, Cohort, RouteSpec, RouteTarget

FORMAT = 1
NEVER = datetime.min.replace(tzinfo=UTC)
KEEP_FORMER = timedelta(minutes=10)
"""How long a target that left its route keeps its cluster: a way back without warming up, and its counts."""
KEEP_WARMING = timedelta(minutes=1)
KEEP_REMOVED = timedelta(days=7)
"""How long a removed route's fence is remembered; every writer from before is long dead then."""


@dataclass(frozen=True, slots=True)
class FormerTarget:
    route: str
    left_at: datetime


@dataclass(frozen=True, slots=True)
class GatewayState:
    routes: Mapping[str, RouteSpec] = field(default_factory=dict)
    fences: Mapping[str, Fence] = field(default_factory=dict)
    """Last writer per route, removed routes included."""
    removed: Mapping[str, datetime] = field(default_factory=dict)
    warming: Mapping[str, datetime] = field(default_factory=dict)
    """Targets whose clusters are being made ready for a route that does not lead to them yet."""
    former: Mapping[str, FormerTarget] = field(default_factory=dict)
    abilities: Mapping[str, AbilitySpec] = field(default_factory=dict)
    abilities_at: datetime = NEVER
    """When they were observed; an older order for them is late."""
    access_at: datetime = NEVER
    """The same of keys of clients."""

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the targets that Envoy must know."""
        routed = {target.name for spec in self.routes.values() for target in spec.targets}
        routed |= {spec.target for spec in self.abilities.values()}
        return tuple(sorted(routed | set(self.warming) | set(self.former)))

    def targets_of(self, route: str) -> tuple[str, ...]:
        """Targets whose counts belong to the route: its own and those that left it a short while ago."""
        own = {target.name for target in self.routes[route].targets}
        return tuple(sorted(own | {name for name, was in self.former.items() if was.route == route}))

    def with_warming(self, spec: RouteSpec, *, fence: Fence, now: datetime) -> Self:
        warming = self._with_fresh((target.name for target in spec.targets), now)
        return replace(self, fences={**self.fences, spec.name: fence}, warming=warming)

    def with_warming_abilities(self, specs: Sequence[AbilitySpec], *, now: datetime) -> Self:
        return replace(self, warming=self._with_fresh((spec.target for spec in specs), now))

    def with_abilities(self, specs: Sequence[AbilitySpec], *, observed_at: datetime, now: datetime) -> Self:
        names = {spec.target for spec in specs}
        left = {spec.target: FormerTarget("", now) for spec in self.abilities.values()}
        return replace(
            self,
            abilities={spec.name: spec for spec in specs},
            abilities_at=observed_at,
            warming=_without(self.warming, names),
            former=_without({**self.former, **left}, names),
        )

    def with_route(self, spec: RouteSpec, *, fence: Fence, now: datetime) -> Self:
        names = {target.name for target in spec.targets}
        return replace(
            self,
            routes={**self.routes, spec.name: spec},
            fences={**self.fences, spec.name: fence},
            removed=_without(self.removed, {spec.name}),
            warming=_without(self.warming, names),
            former=_without(self._with_leavers(spec.name, staying=names, now=now), names),
        )

    def with_fence(self, route: str, fence: Fence) -> Self:
        return replace(self, fences={**self.fences, route: fence})

    def without_route(self, route: str, *, fence: Fence, now: datetime) -> Self:
        return replace(
            self,
            routes=_without(self.routes, {route}),
            fences={**self.fences, route: fence},
            removed={**self.removed, route: now},
            former=self._with_leavers(route, staying=set(), now=now),
        )

    def pruned(self, now: datetime) -> Self:
        """Return the state without what has had its time; the same object when nothing has."""
        former = {name: was for name, was in self.former.items() if now - was.left_at < KEEP_FORMER}
        warming = {name: since for name, since in self.warming.items() if now - since < KEEP_WARMING}
        removed = {name: at for name, at in self.removed.items() if now - at < KEEP_REMOVED}
        if (len(former), len(warming), len(removed)) == (
            len(self.former),
            len(self.warming),
            len(self.removed),
        ):
            return self
        return replace(
            self,
            former=former,
            warming=warming,
            removed=removed,
            fences=_without(self.fences, set(self.removed) - set(removed)),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "routes": {name: spec_to_dict(spec) for name, spec in self.routes.items()},
            "fences": {name: list(fence) for name, fence in self.fences.items()},
            "removed": {name: at.isoformat() for name, at in self.removed.items()},
            "warming": {name: at.isoformat() for name, at in self.warming.items()},
            "former": {
                name: {"route": was.route, "left_at": was.left_at.isoformat()}
                for name, was in self.former.items()
            },
            "abilities": {
                name: [[one.service, one.slots, one.candidate] for one in spec.members]
                for name, spec in self.abilities.items()
            },
            "abilities_at": self.abilities_at.isoformat(),
            "access_at": self.access_at.isoformat(),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Raises GatewayError when the document is none of ours."""
        try:
            if data["format"] != FORMAT:
                raise GatewayError(
                    f"The gateway's state has format {data['format']}, and this Slipway reads {FORMAT}: "
                    "install the newer one, or remove the file to set the gateway up anew."
                )
            return cls(
                routes={name: spec_from_dict(name, spec) for name, spec in data["routes"].items()},
                fences={name: Fence(*map(int, fence)) for name, fence in data["fences"].items()},
                removed={name: datetime.fromisoformat(at) for name, at in data["removed"].items()},
                warming={name: datetime.fromisoformat(at) for name, at in data["warming"].items()},
                former={
                    name: FormerTarget(was["route"], datetime.fromisoformat(was["left_at"]))
                    for name, was in data["former"].items()
                },
                # An older Slipway did not write them.
                abilities={
                    name: AbilitySpec(name, tuple(AbilityMember(*one) for one in members))
                    for name, members in data.get("abilities", {}).items()
                },
                abilities_at=datetime.fromisoformat(data.get("abilities_at", NEVER.isoformat())),
                access_at=datetime.fromisoformat(data.get("access_at", NEVER.isoformat())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise GatewayError(
                f"The gateway's state is damaged ({error!r}): remove it, and the gateway is set up anew."
            ) from None

    def _with_fresh(self, names: Iterable[str], now: datetime) -> Mapping[str, datetime]:
        known = set(self.clusters)
        return {**self.warming, **{name: now for name in names if name not in known}}

    def _with_leavers(self, route: str, *, staying: set[str], now: datetime) -> Mapping[str, FormerTarget]:
        spec = self.routes.get(route)
        if spec is None:
            return self.former
        elsewhere = {
            target.name for name, other in self.routes.items() if name != route for target in other.targets
        }
        leavers = {target.name for target in spec.targets} - staying - elsewhere
        return {**self.former, **{name: FormerTarget(route, now) for name in leavers}}


def _without(mapping: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in names}


def spec_to_dict(spec: RouteSpec) -> dict[str, Any]:
    return (
        {
            "stable": [spec.stable.name, spec.stable.version],
            "candidate": [spec.candidate.name, spec.candidate.version] if spec.candidate else None,
            "candidate_percent": spec.candidate_percent,
            "release_header": spec.release_header,
            "release_key": spec.release_key,
        }
        | ({"mirror_percent": spec.mirror_percent} if spec.mirror_percent else {})
        | ({"answers_key": spec.answers_key} if spec.answers_key else {})
        | ({"cohort": cohort_to_dict(spec.cohort)} if spec.cohort else {})
        | ({"all_paths": True} if spec.all_paths else {})
    )


def cohort_to_dict(cohort: Cohort) -> dict[str, Any]:
    return {key: value for key, value in asdict(cohort).items() if value}


def spec_from_dict(name: str, data: Any) -> RouteSpec:
    candidate = data["candidate"]
    return RouteSpec(
        name=name,
        stable=RouteTarget(*data["stable"]),
        candidate=RouteTarget(*candidate) if candidate else None,
        candidate_percent=int(data["candidate_percent"]),
        # An older Slipway did not write it; the route's row says it again within seconds.
        release_header=data.get("release_header", "off"),
        release_key=str(data.get("release_key", "")),
        mirror_percent=int(data.get("mirror_percent", 0)),
        answers_key=str(data.get("answers_key", "")),
        cohort=Cohort(**data["cohort"]) if data.get("cohort") else None,
        all_paths=bool(data.get("all_paths")),
    )
