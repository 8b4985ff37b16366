from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from common.actor import Actor
from common.declared import manifests
from common.pages.access import signed_in
from common.pages.answers import is_part_request, page
from common.pages.cards import HomeCard


@require_safe
@signed_in
def home(request: HttpRequest) -> HttpResponse:
    """The cards that apps offer, or the one of them that htmx wants to replace."""
    actor: Actor = request.actor  # type: ignore[attr-defined]
    found = cards()
    wanted = request.headers.get("HX-Target") if is_part_request(request) else None
    for card in found:
        if card.name == wanted:
            return page(request, card.template, {"card": card, "shown": card.read(actor)})
    shown = [(card, card.read(actor)) for card in found]
    columns = {
        name: [(card, read) for card, read in shown if card.column == name] for name in ("main", "side")
    }
    return page(request, "home/home.html", {"columns": columns})


def cards() -> list[HomeCard]:
    """The lowest rank first."""
    return sorted((card for one in manifests() for card in one.cards), key=lambda card: card.rank)
