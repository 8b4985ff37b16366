"""A running service that is loaded as it is, instead of servers of the benchmark's own. Pure."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from benchmarks.load.faults import FaultText, is_number, known_fields
from benchmarks.load.scenario import LoadScenario


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    service: str = ""
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    """What the requests of the service's users must keep; the load stops when they do not."""
    share: float = 0.95
    """Of their requests."""


def service_target(given: object, faults: dict[str, str]) -> ServiceTarget:
    found: dict[str, FaultText] = {}
    told = known_fields(given, ServiceTarget, "target.", found, root="target")
    faults |= {name: said.translated(_) for name, said in found.items()}
    if not isinstance(told.get("service"), str) or not told["service"]:
        faults["target.service"] = _("Name a service that runs.")
    limits = {name: told.get(name) for name in ("ttft_ms", "tpot_ms")}
    for name, value in limits.items():
        if value is not None and not is_number(value, above=0):
            faults[f"target.{name}"] = _("Give a number above 0, or leave it out.")
    if all(value is None for value in limits.values()):
        faults["target.ttft_ms"] = _("Give ttft_ms or tpot_ms: what the service's users must keep.")
    if not is_number(told.get("share", 0.5), above=0) or told.get("share", 0.5) >= 1:
        faults["target.share"] = _("Give a share above 0 and below 1, such as 0.95.")
    return ServiceTarget(**told)


def capped(scenario: LoadScenario, most_rate: float, faults: dict[str, str]) -> None:
    """Refuse what could send more than `most_rate` requests per second to a running service."""
    if scenario.is_closed_loop:
        faults["scenario.arrivals"] = _("A running service is loaded at a rate: concurrency has none.")
    elif scenario.find_max_rate:
        faults["scenario.find_max_rate"] = _("The highest rate of a running service is not searched for.")
    elif max(scenario.rates) > most_rate:
        told = _(
            "A running service gets %(most)s requests per second at most (SLIPWAY_BENCHMARK_SERVICE_RATE)."
        )
        faults["scenario.rates"] = told % {"most": f"{most_rate:g}"}
