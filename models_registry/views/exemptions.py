"""The exemptions of a team, among its settings."""

from datetime import timedelta

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.formats import date_format
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
from models_registry import exemptions
from models_registry.forms.exemptions import ExemptionForm
from models_registry.services import exemptions as exemption_services

SORTS = {"given": "given_at", "until": "until", "model": "model__name"}


@require_safe
@signed_in
def exemption_page(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    team = visible_team(actor, name)
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
    team = visible_team(actor, name)
    given = filled(ExemptionForm(request.POST, team=team)).cleaned_data
    until = timezone.now() + timedelta(days=given.pop("days"))
    row = exemption_services.exempt_code(
        actor=actor, team=team, until=until, reason=reason_of(request), **given
    )
    return done(request, _("The %(row)s is exempted.") % {"row": row})


@require_POST
@signed_in
@refusals_at_the_form
def end(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = exemptions.exemptions(actor).filter(team=visible_team(actor, name), pk=pk).first()
    if row is None:
        raise Http404(_("There is no such exemption."))
    exemption_services.end_exemption(actor=actor, exemption=row, reason=reason_of(request))
    if other := exemptions.other_in_force(row):
        until = date_format(other.until, "j F Y")
        return done(
            request,
            _("This exemption is ended. Another exemption of it holds until %(until)s.") % {"until": until},
        )
    return done(request, _("The %(row)s is not exempted any more.") % {"row": row})
