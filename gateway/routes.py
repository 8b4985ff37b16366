"""Routes, their targets and cohorts: the words of the gateway. Pure."""

from dataclasses import dataclass, field, replace
from typing import Literal

Side = Literal["stable", "canary"]
"""What a client may ask for with the header `x-release`."""
ReleaseHeader = Literal["off", "secret", "open"]
"""Who may choose a side by it: nobody, who also sends the service's key as `x-release-key`, or everybody."""


@dataclass(frozen=True, slots=True, order=True)
class WorkerEndpoint:
    """The address of one worker. `address` is an IP address: no names are resolved."""

    address: str
    port: int
    slots: int = field(default=1, compare=False)
    """Requests that it works on at the same time."""
    serves: "RouteTarget | None" = field(default=None, compare=False)
    """Its deployment, where it is behind another address than that of its service."""
    is_spare: bool = field(default=False, compare=False)
    """It gets a request only when the others refuse it, or are not ready."""


@dataclass(frozen=True, slots=True, order=True)
class NamedService:
    """A service of the cluster's own (Kubernetes: a `Service`), which knows its workers itself."""

    namespace: str
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """A deployment that may receive traffic. `version` is sent back as `x-slipway-version`."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Cohort:
    """Clients whose requests go to the candidate whatever its share: those with this value of a header or a
    cookie, or this percentage of its values, the same ones each time.

    They are no random sample: their requests count as forced.
    """

    header: str = ""
    """In lower case; or `cookie`."""
    cookie: str = ""
    value: str = ""
    """Or `percent`, of a header: whoever sends the header and is not among them stays with stable."""
    percent: int = 0

    @property
    def needs(self) -> str:
        """Return the ability that a gateway needs, as `TrafficBackend.cannot` names it."""
        return "cohort_percent" if self.percent else "cohort_cookie" if self.cookie else "cohort"


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A service's route: `/<name>/...` with the prefix removed."""

    name: str
    stable: RouteTarget
    candidate: RouteTarget | None
    candidate_percent: int
    """Whole percent of unforced requests, 0..100, that the candidate gets; 0 without a candidate."""
    release_header: ReleaseHeader = "off"
    """From whom it is not taken, a request with `x-release` is one like any other."""
    release_key: str = field(default="", repr=False)
    """Only with `secret`; empty: nobody has one yet."""
    mirror_percent: int = 0
    """Whole percent of stable's requests of which the candidate gets a copy, whose answer nobody sees. Only
    while it has no share of its own."""
    answers_key: str = field(default="", repr=False)
    """Only with copies: requests carry it, and workers of both sides keep their answers for who has it."""
    cohort: Cohort | None = None
    """Only with a candidate that gets no copies. `x-release`, where it is taken, comes first."""
    all_paths: bool = False
    """Every path of the service is passed on, for services with routes of their own; else those of its API
    below `/v1`. Health and metrics of workers never are."""

    @property
    def to_stable_alone(self) -> "RouteSpec":
        return replace(
            self, candidate=None, candidate_percent=0, mirror_percent=0, answers_key="", cohort=None
        )

    @property
    def targets(self) -> tuple[RouteTarget, ...]:
        return (self.stable,) if self.candidate is None else (self.stable, self.candidate)


@dataclass(frozen=True, slots=True)
class AbilityMember:
    """A service whose workers have an ability."""

    service: str
    slots: int
    """Of all workers of its stable version that have the ability."""
    candidate: str = ""
    """Name of its candidate's target, where the candidate's workers have the ability, too."""


@dataclass(frozen=True, slots=True)
class AbilitySpec:
    """An address `/<name>/...` that leads to the workers of several services: to the one with the fewest
    requests in flight over its slots.

    Those are workers of stable versions. A candidate gets its share of the requests of its service.
    """

    name: str
    members: tuple[AbilityMember, ...]

    @property
    def target(self) -> str:
        """Return the name of the target that its workers are told under."""
        return f"ability.{self.name}"
