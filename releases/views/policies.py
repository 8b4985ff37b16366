"""What a team and a service demand of releases."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.actors import of_request
from accounts.selectors import may, teams_where
from accounts.states import Right
from common.errors import Invalid, SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page
from releases.forms.policy import PolicyForm, ServicePolicyForm
from releases.policy import NOTHING, ReleasePolicy, demanded_by, demands
from releases.selectors.plans import plan_named, policy_of_team
from releases.services.policy import set_team_policy
from releases.services.service import change_service
from releases.views.services import visible_service


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def team_policy(request: HttpRequest, team: str) -> HttpResponse:
    actor = of_request(request)
    owner = teams_where(actor, Right.READ).filter(name=team).first()
    if owner is None:
        raise Http404(_("There is no such team, or none that you may see."))
    present = policy_of_team(owner)
    form = PolicyForm(request.POST if request.method == "POST" else None, policy=present)
    if form.is_bound and form.is_valid():
        try:
            set_team_policy(
                actor=actor, team=owner, policy=form.document(), reason=form.cleaned_data["reason"]
            )
        except SlipwayError as error:
            _blame(form, error)
        else:
            return done(request, _("The release policy is saved."), to="/settings/plans/")
    context = {
        "form": form,
        "title": _("Release policy of team %(team)s") % {"team": owner.name},
        "trail": [("/settings/", _("Settings")), ("/settings/plans/", _("Plans"))],
        "back": "/settings/plans/",
        "may_change": may(actor, Right.RELEASES_BYPASS, owner),
        "demanded": [(_("Team %(team)s") % {"team": owner.name}, demands(present))],
    }
    return _answer(request, form, context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def service_policy(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    service = visible_service(actor, name)
    own = ReleasePolicy.model_validate(service.policy) if service.policy else NOTHING
    form = ServicePolicyForm(
        request.POST if request.method == "POST" else None,
        policy=own,
        policy_replaces_team=service.policy_replaces_team,
    )
    if form.is_bound and form.is_valid():
        document = form.document()
        try:
            change_service(
                service,
                actor=actor,
                reason=form.cleaned_data["reason"],
                policy=None if document == NOTHING.to_dict() else document,
                policy_replaces_team=form.cleaned_data["policy_replaces_team"],
            )
        except SlipwayError as error:
            _blame(form, error)
        else:
            return done(request, _("The release policy is saved."), to=f"/services/{name}/")
    plan = plan_named(service.plan_name, team=service.team)
    context = {
        "form": form,
        "title": _("Release policy of %(service)s") % {"service": service.name},
        "trail": [("/services/", _("Services")), (f"/services/{service.name}/", service.name)],
        "back": f"/services/{service.name}/",
        "may_change": may(actor, Right.SERVICES_WRITE, service.team),
        "demanded": [
            (
                _("Team %(team)s") % {"team": service.team.name},
                () if service.policy_replaces_team else demands(policy_of_team(service.team_id)),
            ),
            (_("This service"), demands(own)),
            (_("Its plan, %(plan)s") % {"plan": plan.name}, demands(demanded_by(plan))),
        ],
    }
    return _answer(request, form, context)


def _answer(request: HttpRequest, form: PolicyForm, context: dict[str, Any]) -> HttpResponse:
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "releases/policy.html", context, status=status)


def _blame(form: PolicyForm, error: SlipwayError) -> None:
    """Show the error at the field that is meant, or above the form."""
    if not isinstance(error, Invalid) or not error.fields:
        form.add_error(None, str(error))
        return
    for path, sentences in error.fields.items():
        name = path.removeprefix("policy.").partition(".")[0]
        for sentence in sentences:
            form.add_error(name if name in form.fields else None, sentence)
