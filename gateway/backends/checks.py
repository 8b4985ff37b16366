"""Checks for what every gateway would refuse or misroute."""

import ipaddress
import re
from collections.abc import Sequence
from datetime import datetime
from typing import get_args

from common.fence import Fence
from gateway.cohorts import cohort_fault
from gateway.errors import InvalidEndpoint, InvalidRoute, StaleRouteFence
from gateway.routes import (
    AbilitySpec,
    Cohort,
    NamedService,
    ReleaseHeader,
    RouteSpec,
    RouteTarget,
    WorkerEndpoint,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""RFC 1123, as Kubernetes names namespaces and services."""
VERSION = re.compile(r"[\x21-\x7e]{1,400}")


def check_spec(spec: RouteSpec) -> None:
    """Raises InvalidRoute."""
    if not NAME.fullmatch(spec.name):
        raise InvalidRoute(f"Route {spec.name!r}: a name must match {NAME.pattern}.")
    for target in spec.targets:
        _check_target(spec, target)
    check_percent(spec.name, spec.candidate, spec.candidate_percent)
    check_percent(spec.name, spec.candidate, spec.mirror_percent)
    if spec.mirror_percent and spec.candidate_percent:
        raise InvalidRoute(f"Route {spec.name}: a candidate with a share of its own gets no copies.")
    if spec.answers_key and not (spec.mirror_percent and VERSION.fullmatch(spec.answers_key)):
        raise InvalidRoute(f"Route {spec.name}: answers are kept of copied requests alone, by a key.")
    if spec.release_header not in get_args(ReleaseHeader):
        raise InvalidRoute(f"Route {spec.name}: {spec.release_header!r} is no way to treat x-release.")
    if spec.release_key and not VERSION.fullmatch(spec.release_key):
        raise InvalidRoute(f"Route {spec.name}: its key cannot be sent as a header.")
    if spec.cohort is not None:
        _check_cohort(spec, spec.cohort)
    if spec.candidate is not None and spec.candidate.name == spec.stable.name:
        raise InvalidRoute(f"Route {spec.name}: stable and candidate are the same target {spec.stable.name}.")


def check_abilities(specs: Sequence[AbilitySpec], *, observed_at: datetime) -> None:
    """Raises InvalidRoute."""
    _check_moment(observed_at)
    for spec in specs:
        if not NAME.fullmatch(spec.name):
            raise InvalidRoute(f"Ability {spec.name!r}: a name must match {NAME.pattern}.")
        for member in spec.members:
            if member.slots < 1:
                raise InvalidRoute(f"Ability {spec.name}: {member.service} has {member.slots} slots.")


def _check_cohort(spec: RouteSpec, cohort: Cohort) -> None:
    if fault := cohort_fault(cohort):
        raise InvalidRoute(f"Route {spec.name}: {fault}")
    if spec.candidate is None:
        raise InvalidRoute(f"Route {spec.name}: a cohort for a candidate, but it has none.")
    if spec.mirror_percent:
        raise InvalidRoute(f"Route {spec.name}: a candidate with a cohort of its own gets no copies.")


def check_percent(route: str, candidate: RouteTarget | None, candidate_percent: int) -> None:
    """Raises InvalidRoute."""
    if isinstance(candidate_percent, bool) or not isinstance(candidate_percent, int):
        raise InvalidRoute(f"Route {route}: the candidate's share must be a whole number of percent.")
    if not 0 <= candidate_percent <= 100:
        raise InvalidRoute(
            f"Route {route}: the candidate's share must be 0 to 100 %, not {candidate_percent}."
        )
    if candidate is None and candidate_percent:
        raise InvalidRoute(f"Route {route}: {candidate_percent} % for a candidate, but it has none.")


def check_place(
    target: str, place: Sequence[WorkerEndpoint] | NamedService, *, observed_at: datetime
) -> tuple[WorkerEndpoint, ...] | NamedService:
    """The endpoints in order, each once, or the service. Raises InvalidEndpoint, InvalidRoute."""
    _check_moment(observed_at)
    if not NAME.fullmatch(target):
        raise InvalidRoute(f"Target {target!r}: a name must match {NAME.pattern}.")
    return _named(target, place) if isinstance(place, NamedService) else _endpoints(target, place)


def _check_moment(observed_at: datetime) -> None:
    if observed_at.tzinfo is None:
        raise ValueError("An observation without a time zone cannot be put in order.")


def _named(target: str, service: NamedService) -> NamedService:
    for what, name in (("namespace", service.namespace), ("name", service.name)):
        if not LABEL.fullmatch(name):
            raise InvalidEndpoint(
                f"Target {target}: {name!r} is no {what} of a service; use lower-case letters, digits and "
                "hyphens, 63 at most."
            )
    _check_port(target, service.port)
    return service


def _check_port(target: str, port: int) -> None:
    if not 1 <= port <= 65535:
        raise InvalidEndpoint(f"Target {target}: {port} is no port; it must be 1 to 65535.")


def _endpoints(target: str, endpoints: Sequence[WorkerEndpoint]) -> tuple[WorkerEndpoint, ...]:
    for endpoint in endpoints:
        try:
            address = ipaddress.ip_address(endpoint.address)
        except ValueError:
            raise InvalidEndpoint(
                f"Target {target}: {endpoint.address!r} is no IP address; the gateway resolves no names."
            ) from None
        if address.is_unspecified or address.is_multicast:
            raise InvalidEndpoint(f"Target {target}: nobody can be reached at {endpoint.address}.")
        _check_port(target, endpoint.port)
    return tuple(sorted(set(endpoints)))


def refuse_stale(route: str, *, last: Fence | None, fence: Fence) -> None:
    """Raises StaleRouteFence."""
    if last is not None and fence < last:
        raise StaleRouteFence(
            f"Route {route} was set by {last.holder}/{last.turn} since; {fence.holder}/{fence.turn} is late."
        )


def _check_target(spec: RouteSpec, target: RouteTarget) -> None:
    if not NAME.fullmatch(target.name):
        raise InvalidRoute(f"Route {spec.name}: target {target.name!r} must match {NAME.pattern}.")
    if not VERSION.fullmatch(target.version):
        raise InvalidRoute(
            f"Route {spec.name}: version {target.version!r} cannot be sent as a header; "
            "it must be 1 to 400 visible ASCII characters."
        )
