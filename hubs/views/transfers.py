"""A sync or an export while it runs, and what people ask of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may
from common.pages.access import or_404, signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import filled, reason_of
from hubs import descriptions
from hubs.descriptions import Descriptions
from hubs.forms import NewTokenForm, every_in_words
from hubs.models import Export, HubSync, HubTransfer
from hubs.selectors.transfers import transfer_of
from hubs.services.exports import EXPORTS
from hubs.services.syncs import SYNCS
from hubs.services.transfers import Transfers
from hubs.states import WISHES, TransferState
from models_registry.views.models import frame, visible_model


@dataclass(frozen=True, slots=True)
class TransferPages:
    """The parts in which the pages of syncs and of exports differ."""

    transfers: Transfers[Any]
    described: Descriptions
    url: str
    """Name of its page's address; with `-act`, of its wishes'."""
    shown: Callable[[Any], Mapping[str, Any]]
    """Title, breadcrumbs and facts."""
    retry_form: type[Form] | None = None


def _sync(sync: HubSync) -> Mapping[str, Any]:
    return {
        "title": _("Sync of %(source)s") % {"source": sync.source},
        "crumb": _("Sync %(sync)s") % {"sync": sync.pk},
        "list_title": _("Hub"),
        "list_url": reverse("model-hub", args=[sync.model.name]),
        "facts": "hubs/_sync_facts.html",
        "source": sync.source,
        "version": sync.version,
        "cause": sync.get_cause_display() if sync.state == TransferState.FAILED else "",
        "every": every_in_words(sync.source.every_seconds),
        "is_over": sync.source.deleted_at is not None,
    }


def _export(export: Export) -> Mapping[str, Any]:
    return {
        "title": _("Export of %(version)s") % {"version": export.version},
        "crumb": _("Export %(export)s") % {"export": export.pk},
        "list_title": _("Exports"),
        "list_url": reverse("model-exports", args=[export.model.name]),
        "lead": export.why,
        "facts": "hubs/_export_facts.html",
        "export": export,
        "version": None,
        "is_over": False,
    }


SYNC = TransferPages(SYNCS, descriptions.SYNC, "hub-sync", _sync)
EXPORT = TransferPages(EXPORTS, descriptions.EXPORT, "export", _export, retry_form=NewTokenForm)


@require_safe
@signed_in
def transfer_page(request: HttpRequest, name: str, pk: int, kind: TransferPages) -> HttpResponse:
    """Asks again every second while it moves."""
    actor = of_request(request)
    model = visible_model(actor, name)
    transfer = or_404(transfer_of, kind.transfers.kind, model, pk)
    shown = kind.shown(transfer)
    offered = may(actor, kind.transfers.right, model.team_id)
    context = {
        **frame(actor, model),
        **shown,
        "transfer": transfer,
        "files": transfer.files,
        "problem_title": shown.get("cause") or kind.described.problems.get(transfer.state, ""),
        "ending": kind.described.endings.get(transfer.state, ""),
        "wishes": _wishes(kind, transfer, is_over=shown["is_over"]) if offered else [],
    }
    return page(request, "hubs/transfer.html", context, parts=("now",))


def _wishes(kind: TransferPages, transfer: HubTransfer, *, is_over: bool) -> list[dict[str, Any]]:
    """The buttons that fit its state."""
    return [
        {
            "id": f"ask-{wish}",
            "url": reverse(f"{kind.url}-act", args=[transfer.model.name, transfer.pk, wish]),
            "button": descriptions.BUTTONS[wish],
            "described": kind.described.wishes[wish],
            "form": kind.retry_form(auto_id="retry_%s") if kind.retry_form and wish == "retry" else None,
        }
        for wish, states in WISHES.items()
        if transfer.state in states
        and not (wish == "pause" and transfer.stuck_at)
        and not (wish == "retry" and is_over)
    ]


@require_POST
@signed_in
@refusals_at_the_form
def act(request: HttpRequest, name: str, pk: int, wish: str, kind: TransferPages) -> HttpResponse:
    if wish not in WISHES:
        raise Http404
    actor = of_request(request)
    transfer = or_404(transfer_of, kind.transfers.kind, visible_model(actor, name), pk)
    why = reason_of(request, is_demanded=False)
    form = kind.retry_form if wish == "retry" else None
    given = filled(form(request.POST)).cleaned_data if form else {}
    kind.transfers.ask(wish, actor=actor, transfer=transfer, reason=why, **given)
    return done(request, descriptions.BUTTONS[wish].done)
