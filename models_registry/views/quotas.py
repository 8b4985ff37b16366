"""What a team holds and may hold, among its settings; and the same of all teams."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_POST, require_safe

from accounts import selectors as accounts
from accounts.actors import of_request
from accounts.models import Team
from accounts.states import Right
from common.actor import Actor
from common.pages.access import signed_in
from common.pages.answers import done, page, refusals_at_the_form, refused
from common.pages.forms import ReasonForm, first_fault
from common.pages.listing import list_page
from models_registry import quotas, services
from models_registry.forms import QuotaForm


@require_safe
@signed_in
def storage_page(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    storage = quotas.storage_of(_team(actor, name))
    context = {
        "team": storage.team,
        "storage": storage,
        "may_limit": accounts.may_everywhere(actor, Right.FLEET_OPERATE),
        "form": QuotaForm.of(storage.limit_bytes),
    }
    return page(request, "models_registry/team_storage.html", context, parts=("usage",))


@require_safe
@signed_in
def store_teams(request: HttpRequest) -> HttpResponse:
    if not accounts.may_everywhere(of_request(request), Right.FLEET_OPERATE):
        return page(request, "models_registry/store_closed.html", status=403)
    listing = list_page(
        request, Team.objects.order_by("name"), sorts={"name": "name"}, default_sort="name", size=20
    )
    context = {"listing": listing, "storages": [quotas.storage_of(team) for team in listing.rows]}
    return page(request, "models_registry/store_teams.html", context, parts=("teams",))


@require_POST
@signed_in
@refusals_at_the_form
def set_quota(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = _team(actor, name)
    form, why = QuotaForm(request.POST), ReasonForm(request.POST)
    for one in (form, why):
        if not one.is_valid():
            return refused(request, first_fault(one))
    services.set_quota(
        actor=actor, team=team, limit_bytes=form.limit_bytes, reason=why.cleaned_data["reason"]
    )
    return done(request, f"The limit of {team} is set.", to=f"/settings/teams/{team.name}/storage/")


def _team(actor: Actor, name: str) -> Team:
    found = accounts.teams_where(actor, Right.READ).filter(name=name).first()
    if found is None:
        raise Http404("There is no such team, or you are not in it.")
    return found
