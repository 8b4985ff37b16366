"""Who approves in whose place while somebody is away."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.actors import of_request
from accounts.models import Team, User
from accounts.selectors import may, people_with, teams_where
from accounts.states import Right
from common.actor import Actor
from common.audit import MAX_REASON
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import MomentInput, blame, reason_of
from releases.models import ApprovalDelegation
from releases.services.delegation import delegate_approvals, end_delegation

PATH = "/settings/delegations/"
SHOWN = 100


class DelegationForm(forms.Form):
    team = forms.ModelChoiceField(
        Team.objects.none(), to_field_name="name", label=gettext_lazy("Team"), empty_label=None
    )
    delegate = forms.ModelChoiceField(
        User.objects.none(), to_field_name="username", label=gettext_lazy("Delegate")
    )
    ends_at = forms.DateTimeField(
        label=gettext_lazy("Until"),
        required=False,
        widget=MomentInput,
        help_text=gettext_lazy("Empty: until you end it."),
    )
    reason = forms.CharField(max_length=MAX_REASON, required=False, label=gettext_lazy("Reason"))

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        teams, people = self.fields["team"], self.fields["delegate"]
        mine = teams_where(actor, Right.RELEASES_APPROVE).order_by("name")
        assert isinstance(teams, forms.ModelChoiceField)  # noqa: S101
        assert isinstance(people, forms.ModelChoiceField)  # noqa: S101
        teams.queryset = mine
        members = User.objects.filter(is_active=True, memberships__team__in=mine)
        people.queryset = members.exclude(pk=actor.user_id or 0).distinct().order_by("username")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def delegations(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    form = DelegationForm(request.POST if request.method == "POST" else None, actor=actor)
    if form.is_bound and form.is_valid():
        try:
            row = delegate_approvals(actor=actor, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            words = _("%(delegate)s may approve in your place.") % {"delegate": row.delegate}
            return done(request, words, to=PATH)
    rows = ApprovalDelegation.objects.for_actor(actor).select_related("team", "person", "delegate")
    context = {
        "form": form,
        "may_add": may(actor, Right.RELEASES_APPROVE) and people_with_team(actor),
        "listed": [(row, _may_end(row, actor)) for row in rows[:SHOWN]],
    }
    return page(request, "releases/delegations.html", context, status=UNPROCESSABLE if form.errors else 200)


@require_POST
@signed_in
@refusals_at_the_form
def end(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = get_object_or_404(ApprovalDelegation.objects.for_actor(actor), pk=pk)
    end_delegation(row, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("The delegation is ended."), to=PATH)


def people_with_team(actor: Actor) -> bool:
    """Whether the person may approve in a team by a role of their own."""
    if actor.user_id is None:
        return False
    teams = teams_where(actor, Right.RELEASES_APPROVE)
    return any(
        people_with(Right.RELEASES_APPROVE, team).filter(pk=actor.user_id).exists() for team in teams[:20]
    )


def _may_end(row: ApprovalDelegation, actor: Actor) -> bool:
    is_theirs = actor.user_id in (row.person_id, row.delegate_id)
    return row.ended_at is None and (is_theirs or may(actor, Right.PEOPLE_ADMIN, row.team))
