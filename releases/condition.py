"""How a service is, judged from what is observed of it. Pure: no clock, no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

LEAST_REQUESTS = 20
"""Of fewer requests no share of errors is told."""
LEAST_ERRORS = 5
DEGRADED_SHARE = 0.02
FAILING_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class StableWorkers:
    """Workers of the stable version. Each of `wanted` is `ready`, or is missing for some reason."""

    wanted: int
    ready: int
    lost: int = 0
    stuck: int = 0
    saturated: int = 0
    waiting: int = 0
    """Requests in their queues."""
    reason: str = ""
    """What their deployment says of itself."""


@dataclass(frozen=True, slots=True)
class ServiceObservation:
    """Facts about a service at one moment."""

    has_stable: bool
    is_releasing: bool
    workers: StableWorkers | None = None
    """None while nothing is known of them."""
    requests: int = 0
    """Answered over the last one to three minutes, by whatever version; so are the errors."""
    errors: int = 0
    gateway_problem: str = ""
    """Why the gateway has not taken the present route; empty when it has."""
    desired_percent: int = 0
    observed_percent: float | None = None
    """Of the candidate, where it is further from what is desired than chance allows; else None."""


@dataclass(frozen=True, slots=True)
class ServiceCondition:
    state: str
    """One of STATES."""
    reason: str = ""
    """Why it is degraded, failing or down, in words; empty when nothing is wrong."""


STATES = ("starting", "serving", "releasing", "degraded", "failing", "down")
"""First release under way; stable serves; another release is in motion; something is wrong and clients are
served; many of them are not; nothing serves."""


def condition_of(seen: ServiceObservation) -> ServiceCondition:
    """Trouble outranks a release in motion: that one is told elsewhere, too."""
    if not seen.has_stable:
        if seen.is_releasing:
            return ServiceCondition("starting")
        return ServiceCondition("down", _("No version serves: the first release has not been promoted."))
    failing, degraded = _of_answers(seen)
    without, short = _of_workers(seen.workers) if seen.workers else ((), ())
    failing, degraded = [*without, *failing], [*short, *degraded, *_of_gateway(seen)]
    reason = "; ".join([*failing, *degraded])
    if failing:
        return ServiceCondition("failing", reason)
    if degraded:
        return ServiceCondition("degraded", reason)
    return ServiceCondition("releasing" if seen.is_releasing else "serving")


def _of_answers(seen: ServiceObservation) -> tuple[Sequence[str], Sequence[str]]:
    if seen.requests < LEAST_REQUESTS or seen.errors < LEAST_ERRORS:
        return (), ()
    share = seen.errors / seen.requests
    words = _("%(percent)s %% of requests fail (5xx: %(errors)s / %(requests)s)") % {
        "percent": f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.1f}",
        "errors": f"{seen.errors:,}",
        "requests": f"{seen.requests:,}",
    }
    if share >= FAILING_SHARE:
        return (words,), ()
    return (), (words,) if share >= DEGRADED_SHARE else ()


def _of_workers(workers: StableWorkers) -> tuple[Sequence[str], Sequence[str]]:
    named = {"ready": workers.ready, "wanted": workers.wanted}
    because = f": {workers.reason}" if workers.reason else ""
    if not workers.ready:
        return (_("no worker answers (%(ready)s of %(wanted)s)") % named + because,), ()
    found = []
    if workers.ready < workers.wanted:
        found.append(_("%(ready)s of %(wanted)s workers answer") % named + because)
    elif workers.lost:
        found.append(
            ngettext("%(lost)s worker is lost", "%(lost)s workers are lost", workers.lost)
            % {"lost": workers.lost}
        )
    if workers.stuck:
        found.append(
            ngettext("%(stuck)s worker is stuck", "%(stuck)s workers are stuck", workers.stuck)
            % {"stuck": workers.stuck}
        )
    if workers.saturated and workers.saturated == workers.ready:
        found.append(_("all workers are saturated, %(waiting)s requests wait") % {"waiting": workers.waiting})
    return (), found


def _of_gateway(seen: ServiceObservation) -> Sequence[str]:
    found = []
    if seen.gateway_problem:
        found.append(
            _("the gateway has not taken the present route: %(problem)s") % {"problem": seen.gateway_problem}
        )
    if seen.observed_percent is not None:
        found.append(
            _("the candidate gets %(observed)s %% of the traffic, not %(desired)s %%")
            % {"observed": f"{seen.observed_percent:.1f}", "desired": seen.desired_percent}
        )
    return found
