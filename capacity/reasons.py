"""Reasons of plans as codes, which are stored and sent, and their words, which people read."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.languages import Text

REASONS: dict[str, Text] = {
    "within_band": _("The need is within the band."),
    "need_rose": _("The need rose above the workers."),
    "need_stayed_below": _("The need stayed below the workers for the whole hold."),
    "others_need_them": _("Others need its workers."),
    "undone": _("A plan is undone."),
    "no_workers": _("It has no workers behind the gateway."),
    "no_heartbeats": _("No heartbeat of its workers: it keeps what it has."),
    "in_release": _("A release works on it."),
    "in_healing": _("One of its machines is being healed."),
    "other_cluster": _("Its workers run in another cluster."),
    "scaled_by_others": _("Something else scales it."),
    "budget_used": _("The plan moves as many workers as it may."),
    "starts_already": _("As many of its workers start already as may at once."),
    "least_time": _("Workers of others must stay for their least time."),
    "did_not_help": _("More workers did not raise what it answers: it gets no more for half an hour."),
    "blast_radius": _("One plan takes at most 60 % of a service's workers."),
    "at_limit": _("It has as many workers as it may."),
    "pool_full": _("The pool has no more to give."),
    "guaranteed": _("So many are guaranteed to it."),
    "small_change": _("In a full pool small changes are left alone."),
    "latency_bound": _("The latency is above its bound, or requests were refused: all are online."),
    "jobs_wait": _("Jobs wait: workers that requests do not need work them off."),
    "no_jobs": _("No job waits: what the load leaves stays online."),
    "queue_drains": _("What arrives in its queue and what waits there needs so many workers."),
    "queue_holds": _("Its queue needed more within the hold."),
    "deadline": _("So many workers are done with its queue by the deadline."),
    "no_queue": _("The queue does not answer: it keeps what it has."),
    "waits_for_plan": _("A plan that makes room for it waits to be applied, or is under way."),
    "reserved": _("It waits for a machine that is kept for it."),
    "no_room": _("No machine has the cards, and nobody may be preempted for it."),
    "too_large": _("No machine of the pools has so many cards."),
    "makes_room": _("Its machine is freed for larger workloads."),
    "its_turn": _("It comes before those that give way."),
    "preempted": _("It gives way, and goes on from its checkpoint."),
    "preempted_without_checkpoint": _("It gives way, and loses its work: its policy allows that."),
    "incident": _("A health incident keeps it out of service."),
    "cordoned": _("It is cordoned."),
    "shared": _("MIG or MPS divides its cards."),
    "not_ready": _("It is not ready."),
    "no_selector": _("Its pods do not select the machines that it is given."),
    "no_cards": _("A machine does not hold one of its workers."),
    "nothing_movable": _("No worker may be moved to it."),
}


LAW: dict[str, Text] = {
    "target": _("Target"),
    "hold_seconds": _("Hold (s)"),
    "decrease_band": _("Band"),
    "drain_seconds": _("Drain (s)"),
    "increase_from": _("Increase from"),
}


def law_in_words(law: Mapping[str, float]) -> str:
    """Parameters of a policy with their values."""
    return ", ".join(f"{LAW.get(name, name)} {value:g}" for name, value in law.items()) or "–"


def in_words(code: str) -> str:
    """The words of a code; a code of a newer release is shown as it is."""
    return str(REASONS.get(code, code))
