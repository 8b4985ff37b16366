"""Whose signatures a team trusts and what it demands, among its settings."""

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
from models_registry import services, vouching
from models_registry.errors import CannotSign
from models_registry.forms import DemandForm, TrustedKeyForm

SORTS = {"name": "name", "added": "added_at"}
OWN_NAME = "slipway"


@require_safe
@signed_in
def signature_page(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = _team(actor, name)
    rows = vouching.trusted_keys(actor).filter(team=team)
    policy = vouching.policy_of(team)
    try:
        signer, fault = vouching.signer(), ""
    except CannotSign as error:
        signer, fault = None, str(error)
    own = signer.public_key if signer else None
    context = {
        "team": team,
        "policy": policy,
        "listing": list_page(request, rows, sorts=SORTS, default_sort="-added"),
        "own": own,
        "fault": fault,
        "trusts_own": own is not None and rows.filter(fingerprint=own.fingerprint, removed_at=None).exists(),
        "key_form": TrustedKeyForm(auto_id="key_%s"),
        "own_form": TrustedKeyForm(
            initial={"name": OWN_NAME, "pem": own.pem if own else ""}, auto_id="own_%s"
        ),
        "demand_form": DemandForm(initial={"demand": policy.demand}, auto_id="demand_%s"),
        "may_admin": accounts.may(actor, Right.SIGNATURES_ADMIN, team),
    }
    return page(request, "models_registry/signatures.html", context, parts=("listing",))


@require_POST
@signed_in
@refusals_at_the_form
def trust(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = _team(actor, name)
    form, why = TrustedKeyForm(request.POST), ReasonForm(request.POST)
    for one in (form, why):
        if not one.is_valid():
            return refused(request, first_fault(one))
    row = services.trust_key(
        actor=actor,
        team=team,
        name=form.cleaned_data["name"],
        pem=form.cleaned_data["pem"],
        reason=why.cleaned_data["reason"],
    )
    return done(request, f"Signatures by the {row} count from now on.")


@require_POST
@signed_in
@refusals_at_the_form
def distrust(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = vouching.trusted_keys(actor).filter(team=_team(actor, name), pk=pk).first()
    if row is None:
        raise Http404("There is no such key.")
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return refused(request, first_fault(form))
    services.distrust_key(actor=actor, key=row, reason=form.cleaned_data["reason"])
    return done(request, f"Signatures by the {row} count no more.")


@require_POST
@signed_in
@refusals_at_the_form
def demand(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = _team(actor, name)
    form, why = DemandForm(request.POST), ReasonForm(request.POST)
    for one in (form, why):
        if not one.is_valid():
            return refused(request, first_fault(one))
    row = services.demand_signatures(
        actor=actor, team=team, demand=form.cleaned_data["demand"], reason=why.cleaned_data["reason"]
    )
    return done(request, f"Without a trusted signature: {row.get_demand_display()}.")


def _team(actor: Actor, name: str) -> Team:
    found = accounts.teams_where(actor, Right.READ).filter(name=name).first()
    if found is None:
        raise Http404("There is no such team, or you are not in it.")
    return found
