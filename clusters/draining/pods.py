"""The plan of a drain: pods that leave, stay, are waited for or stop it, and why. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from django.utils.translation import gettext as _

from clusters.backends.observed_pods import ObservedPod
from clusters.draining.options import DrainOptions, PodPolicy


class PodPlan(StrEnum):
    """The part of a drain's plan for one pod."""

    EVICTED = "evicted"
    """It is, or will be, asked to leave."""
    WAITED_FOR = "waited_for"
    """It may finish by itself first."""
    LEAVING = "leaving"
    """It was asked to, and ends."""
    LEFT = "left"
    """It stays."""
    STOPS = "stops"
    """The drain cannot be done as it was ordered."""


GOES = frozenset({PodPlan.EVICTED, PodPlan.WAITED_FOR, PodPlan.LEAVING})
"""The machine is drained once none of these is left."""


@dataclass(frozen=True, slots=True)
class PlannedPod:
    pod: ObservedPod
    fate: PodPlan
    why: str = ""
    blocked_by: str = ""
    """The budget that forbids it at the moment, in words; empty: none does."""


def plan(pods: Iterable[ObservedPod], options: DrainOptions, *, elapsed: timedelta) -> list[PlannedPod]:
    """Plan the drain: pods that stop it first, then those that leave, then those that stay; each by name.

    `elapsed`: since the drain was ordered.
    """
    found = [_planned(pod, options, elapsed) for pod in pods]
    order = [PodPlan.STOPS, PodPlan.EVICTED, PodPlan.WAITED_FOR, PodPlan.LEAVING, PodPlan.LEFT]
    return sorted(found, key=lambda one: (order.index(one.fate), one.pod.namespace, one.pod.name))


def _planned(pod: ObservedPod, options: DrainOptions, elapsed: timedelta) -> PlannedPod:
    policy = options.policy_of(pod.namespace)
    if pod.is_mirror:
        return PlannedPod(pod, PodPlan.LEFT, _("Its machine runs it by itself: nobody else can end it."))
    if pod.is_daemon and options.daemons_are_left:
        return PlannedPod(pod, PodPlan.LEFT, _("It belongs to every machine: it would come back at once."))
    if policy.policy is PodPolicy.LEAVE:
        return PlannedPod(
            pod, PodPlan.LEFT, _("Pods of %(namespace)s are left.") % {"namespace": pod.namespace}
        )
    if options.gpu_pods_only and not pod.has_gpu:
        return PlannedPod(pod, PodPlan.LEFT, _("It has no GPU."))
    if pod.is_leaving:
        return PlannedPod(pod, PodPlan.LEAVING, _("It was asked to end."))
    if pod.has_ended:
        return PlannedPod(pod, PodPlan.EVICTED, _("It has ended."))
    if stops := _why_it_stops(pod, options):
        return PlannedPod(pod, PodPlan.STOPS, stops)
    left = policy.within_seconds - elapsed.total_seconds()
    if policy.policy is PodPolicy.FINISH and left > 0:
        words = _("It may finish by itself for %(minutes)d more minutes.") % {"minutes": -(-left // 60)}
        return PlannedPod(pod, PodPlan.WAITED_FOR, words)
    return PlannedPod(pod, PodPlan.EVICTED, blocked_by="" if options.past_budgets else _what_forbids(pod))


def _why_it_stops(pod: ObservedPod, options: DrainOptions) -> str:
    if pod.is_daemon:
        return _("It belongs to a DaemonSet, which would recreate it at once: leave such pods.")
    if not pod.owner and not options.unowned_may_go:
        return _("No controller recreates it elsewhere: it would be lost. Allow that, or delete it yourself.")
    if pod.local_data and not options.local_data_may_go:
        return _("Its volumes %(volumes)s end with it: allow that, or save what is in them.") % {
            "volumes": ", ".join(pod.local_data)
        }
    if len(pod.budgets) > 1 and not options.past_budgets:
        return _("It has several disruption budgets (%(names)s), and is never evicted then.") % {
            "names": ", ".join(one.name for one in pod.budgets)
        }
    return ""


def _what_forbids(pod: ObservedPod) -> str:
    for one in pod.budgets:
        if one.allowed <= 0:
            return _("The budget %(name)s allows none now: %(healthy)d of %(desired)d are ready.") % {
                "name": one.name,
                "healthy": one.healthy,
                "desired": one.desired,
            }
    return ""


def why_it_cannot_be(planned: Sequence[PlannedPod]) -> str:
    """The pods that stop it, in words; empty: none does."""
    stops = [one for one in planned if one.fate is PodPlan.STOPS]
    named = "; ".join(f"{one.pod.title}: {one.why}" for one in stops[:5])
    if len(stops) <= 5:
        return named
    return f"{named} " + _("And %(count)d more.") % {"count": len(stops) - 5}
