"""The exemptions of a team, among its settings."""

from datetime import timedelta

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
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
from models_registry import exemptions, services
from models_registry.forms import ExemptionForm

SORTS = {"given": "given_at", "until": "until", "model": "model__name"}


@require_safe
@signed_in
def exemption_page(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = _team(actor, name)
    rows = exemptions.exemptions(actor).filter(team=team)
    context = {
        "team": team,
        "listing": list_page(request, rows, sorts=SORTS, default_sort="-given"),
        "form": ExemptionForm(team=team, auto_id="exemption_%s"),
        "may_exempt": accounts.may(actor, Right.CODE_EXEMPT, team),
    }
    return page(request, "models_registry/exemptions.html", context, parts=("listing",))


@require_POST
@signed_in
@refusals_at_the_form
def exempt(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = _team(actor, name)
    form, why = ExemptionForm(request.POST, team=team), ReasonForm(request.POST)
    for one in (form, why):
        if not one.is_valid():
            return refused(request, first_fault(one))
    row = services.exempt_code(
        actor=actor,
        team=team,
        model=form.cleaned_data["model"],
        covers_runnable=form.cleaned_data["covers_runnable"],
        until=timezone.now() + timedelta(days=form.cleaned_data["days"]),
        reason=why.cleaned_data["reason"],
    )
    return done(request, f"The {row} is exempted.")


@require_POST
@signed_in
@refusals_at_the_form
def end(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = exemptions.exemptions(actor).filter(team=_team(actor, name), pk=pk).first()
    if row is None:
        raise Http404("There is no such exemption.")
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return refused(request, first_fault(form))
    services.end_exemption(actor=actor, exemption=row, reason=form.cleaned_data["reason"])
    return done(request, f"The {row} is not exempted any more.")


def _team(actor: Actor, name: str) -> Team:
    found = accounts.teams_where(actor, Right.READ).filter(name=name).first()
    if found is None:
        raise Http404("There is no such team, or you are not in it.")
    return found
