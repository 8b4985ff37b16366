"""Changes of plans and of cards in words."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from capacity.planning.mps import PROFILE


def change_in_words(change: Mapping[str, Any]) -> str:
    """`chat 2 → 3`, or `train queue → gpu-7 0-7`."""
    name = change.get("service") or change.get("name", "")
    moved = f"{name} {place_in_words(change['before'])} → {place_in_words(change['after'])}"
    machines = [f"-{one}" for one in change.get("gives", ())] + [f"+{one}" for one in change.get("gets", ())]
    return f"{moved} ({', '.join(machines)})" if machines else moved


def place_in_words(place: Any) -> str:
    """Workers, or a machine with its cards; nothing: the queue."""
    if place is None:
        return _("queue")
    if not isinstance(place, Mapping):
        return str(place)
    return "; ".join(f"{one['machine']} {cards_in_words(one['cards'])}" for one in parts_of(place))


def parts_of(place: Any) -> list[Mapping[str, Any]]:
    """Return the machines of a place of a workload, each with its cards; none: the queue."""
    return [] if place is None else [place, *place.get("rest", ())]


def given_back(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machines of a change that takes this one back; nothing, where none are moved."""
    return {"gives": change["gets"], "gets": change["gives"]} if "gives" in change else {}


def cards_in_words(cards: list[int]) -> str:
    """`0-3, 6`"""
    spans: list[list[int]] = []
    for card in sorted(cards):
        if spans and spans[-1][1] == card - 1:
            spans[-1][1] = card
        else:
            spans.append([card, card])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)


def size_in_words(instance: Mapping[str, Any]) -> str:
    """`1g.10gb`, or of a share by MPS `25 % of the threads, 9856 MiB`."""
    if instance["profile"] != PROFILE:
        return str(instance["profile"])
    words = _("%(threads)s %% of the threads, %(memory)s MiB")
    return words % {"threads": instance["threads"], "memory": instance["memory_mib"]}


def room_in_words(room: Mapping[str, int]) -> str:
    """`7 x 1g.10gb, 3 x 2g.20gb`; empty: there is none."""
    return ", ".join(f"{count} x {profile}" for profile, count in room.items() if count)
