"""Whose signatures a team trusts and what it demands, among its settings."""

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts import selectors as accounts
from accounts.actors import of_request
from accounts.states import Right
from accounts.team_pages import visible_team
from common.pages.access import signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import filled, reason_of
from common.pages.listing import list_page
from trust import services, signature_policy
from trust.errors import CannotSign
from trust.forms import DemandForm, TrustedKeyForm

SORTS = {"name": "name", "added": "added_at"}
OWN_NAME = "slipway"


@require_safe
@signed_in
def signature_page(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = visible_team(actor, name)
    rows = signature_policy.trusted_keys(actor).filter(team=team)
    policy = signature_policy.policy_of(team)
    try:
        signer, fault = signature_policy.signer(), ""
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
    return page(request, "trust/signatures.html", context, parts=("listing",))


@require_POST
@signed_in
@refusals_at_the_form
def trust(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = visible_team(actor, name)
    given = filled(TrustedKeyForm(request.POST)).cleaned_data
    row = services.trust_key(actor=actor, team=team, reason=reason_of(request), **given)
    return done(request, _("Signatures by the %(row)s count from now on.") % {"row": row})


@require_POST
@signed_in
@refusals_at_the_form
def distrust(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = signature_policy.trusted_keys(actor).filter(team=visible_team(actor, name), pk=pk).first()
    if row is None:
        raise Http404(_("There is no such key."))
    services.distrust_key(actor=actor, key=row, reason=reason_of(request))
    return done(request, _("Signatures by the %(row)s no longer count.") % {"row": row})


@require_POST
@signed_in
@refusals_at_the_form
def demand(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = visible_team(actor, name)
    given = filled(DemandForm(request.POST)).cleaned_data
    row = services.demand_signatures(actor=actor, team=team, reason=reason_of(request), **given)
    return done(
        request,
        _("Without a trusted signature: %(get_demand_display)s.")
        % {"get_demand_display": row.get_demand_display()},
    )
