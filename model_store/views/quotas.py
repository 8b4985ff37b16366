"""The quota of a team and its use, among its settings; and of all teams."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts import selectors as accounts
from accounts.actors import of_request
from accounts.models import Team
from accounts.states import Right
from accounts.team_pages import visible_team
from common.pages.access import signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import filled, reason_of
from common.pages.listing import list_page
from model_store import quotas, services
from model_store.forms import QuotaForm


@require_safe
@signed_in
def storage_page(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    storage = quotas.storage_of(visible_team(actor, name))
    context = {
        "team": storage.team,
        "storage": storage,
        "may_limit": accounts.may_everywhere(actor, Right.FLEET_OPERATE),
        "form": QuotaForm.of(storage.limit_bytes),
    }
    return page(request, "model_store/team_storage.html", context, parts=("usage",))


@require_safe
@signed_in
def store_teams(request: HttpRequest) -> HttpResponse:
    if not accounts.may_everywhere(of_request(request), Right.FLEET_OPERATE):
        return page(request, "model_store/store_closed.html", status=403)
    listing = list_page(
        request, Team.objects.order_by("name"), sorts={"name": "name"}, default_sort="name", size=20
    )
    title = _("Storage of the teams")
    context = {"title": title, "listing": listing, "storages": quotas.storages_of(listing.rows)}
    return page(request, "model_store/store_teams.html", context, parts=("teams",))


@require_POST
@signed_in
@refusals_at_the_form
def set_quota(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = visible_team(actor, name)
    limit = filled(QuotaForm(request.POST)).limit_bytes
    services.set_quota(actor=actor, team=team, limit_bytes=limit, reason=reason_of(request))
    return done(
        request,
        _("The limit of %(team)s is set.") % {"team": team},
        to=f"/settings/teams/{team.name}/storage/",
    )
