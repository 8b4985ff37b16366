"""Aliases: where they point, where they pointed, and moving them."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from common.pages.access import signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import filled, reason_of
from common.pages.listing import list_page
from models_registry.filters import AliasMoveFilter
from models_registry.forms.aliases import AliasForm
from models_registry.selectors import aliases
from models_registry.services import aliases as alias_services
from models_registry.views.models import frame, visible_model

SORTS = {"at": "at", "alias": "alias", "by": "by"}


@require_safe
@signed_in
def alias_page(request: HttpRequest, name: str) -> HttpResponse:
    """Its aliases, and every move of them; `?alias=` shows the moves of one, `?at=` those in force then."""
    actor = of_request(request)
    model = visible_model(actor, name)
    moves = aliases.alias_history(model)
    listing = list_page(request, moves, sorts=SORTS, default_sort="-at", filters=AliasMoveFilter)
    context = frame(actor, model) | {"listing": listing}
    return page(request, "models_registry/aliases.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
@refusals_at_the_form
def move_alias(request: HttpRequest, name: str) -> HttpResponse:
    """Asked for with GET: the fields of its dialog."""
    actor = of_request(request)
    model = visible_model(actor, name)
    if request.method != "POST":
        context = {"form": AliasForm(model=model, auto_id="move_%s"), "aliases": aliases.aliases(model)}
        return page(request, "models_registry/_alias_fields.html", context)
    given = filled(AliasForm(request.POST, model=model)).cleaned_data
    reason = reason_of(request)
    before = aliases.aliases(model).filter(name=given["alias"]).first()
    alias = alias_services.set_alias(actor=actor, model=model, reason=reason, **given)
    if before is not None and before.revision == alias.revision:
        return done(
            request,
            _("%(alias)s is %(version)s already; nothing changed.")
            % {"alias": alias, "version": given["version"].name},
            tone="idle",
        )
    return done(
        request, _("%(alias)s is %(version)s now.") % {"alias": alias, "version": given["version"].name}
    )


@require_POST
@signed_in
@refusals_at_the_form
def delete_alias(request: HttpRequest, name: str, alias: str) -> HttpResponse:
    actor = of_request(request)
    found = aliases.alias_named(visible_model(actor, name), alias)
    alias_services.delete_alias(actor=actor, alias=found, reason=reason_of(request))
    return done(request, _("%(found)s is deleted; its history stays.") % {"found": found})
