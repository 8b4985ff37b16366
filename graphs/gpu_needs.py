"""GPU memory and time of a graph's tasks as their profiles have them, for plans of shared cards."""

from collections.abc import Iterable
from math import ceil

from clusters.gpu_needs import MeasuredNeed
from clusters.models import Deployment
from graphs.models import TaskProfile

MIB = 2**20


def of_profiles(deployment: Deployment) -> Iterable[MeasuredNeed]:
    """Yield the need of one process of each task that uses a card, at its largest batch.

    How often each task runs follows from the plan: their shares are added, up to a whole card.
    """
    rows = TaskProfile.objects.filter(graph__version=deployment.version_id).select_related("graph")
    on_cards = [one.figures for one in rows if one.figures.get("card") and not one.is_stale]
    memory = sum(max(each.get("card_memory", 0) for each in one["times"]) for one in on_cards)
    if memory:
        share = min(1.0, sum(one.get("card_time", 1.0) for one in on_cards))
        mib = ceil(memory / MIB)
        yield MeasuredNeed(
            deployment.service,
            days=0,
            memory_p95_mib=mib,
            memory_peak_mib=mib,
            busy_p95=share,
            share=share,
            measured_by="graphs",
        )
