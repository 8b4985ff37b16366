"""Teams: the list, one of them with its members, a new one; and which role may do what."""

from django.core.exceptions import ValidationError
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts import actors, selectors
from accounts.forms import MemberForm, NewTeamForm, TeamForm
from accounts.models import Team, User
from accounts.services import rights, teams
from accounts.states import RIGHTS, Right, Role
from accounts.views.new import NewPage
from common.actor import Actor
from common.audit import MAX_REASON
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form, refused
from common.pages.forms import blame, filled, reason_of
from common.pages.listing import list_page

NEW_TEAM = NewPage(
    gettext_lazy("New team"),
    room=gettext_lazy("Teams"),
    room_url="/settings/teams/",
    submit=gettext_lazy("Create team"),
    who=gettext_lazy("Administrators of the installation create teams."),
)
SORTS = {"name": "name", "members": "member_count", "created": "created_at"}
MEMBER_SORTS = {"name": "user__username", "role": "role", "since": "created_at"}


@require_safe
@signed_in
def team_list(request: HttpRequest) -> HttpResponse:
    actor = actors.of_request(request)
    rows = selectors.teams_where(actor, Right.READ).annotate(member_count=Count("memberships"))
    listing = list_page(request, rows, sorts=SORTS, default_sort="name")
    context = {
        "listing": listing,
        "may_create": selectors.may_everywhere(actor, Right.PEOPLE_ADMIN),
        "roles": list(Role),
        "rights": [(right, [right in RIGHTS[role] for role in Role]) for right in Right],
    }
    return page(request, "accounts/teams.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_team(request: HttpRequest) -> HttpResponse:
    actor = actors.of_request(request)
    is_open = selectors.may_everywhere(actor, Right.PEOPLE_ADMIN)
    form = NewTeamForm(request.POST if request.method == "POST" and is_open else None)
    if form.is_bound and form.is_valid():
        try:
            made = teams.create_team(actor=actor, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            said = _("Team %(name)s is created. Add its first admin.") % {"name": made}
            return done(request, said, to=f"/settings/teams/{made}/")
    return NEW_TEAM.with_form(request, form, is_open=is_open)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def team(request: HttpRequest, name: str) -> HttpResponse:
    actor = actors.of_request(request)
    shown = _team(actor, name)
    form = TeamForm(
        request.POST if request.method == "POST" else None, initial={"description": shown.description}
    )
    if form.is_bound and form.is_valid():
        try:
            teams.change_team(actor=actor, team=shown, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(request, _("Saved."), to=f"/settings/teams/{name}/")
    members = selectors.members(actor, name)
    listing = list_page(request, members, sorts=MEMBER_SORTS, default_sort="name")
    context = {
        "shown": shown,
        "form": form,
        "listing": listing,
        "roles": Role.choices,
        "member_form": MemberForm(auto_id="member_%s"),
        "may_admin": selectors.may(actor, Right.PEOPLE_ADMIN, shown),
        "may_delete": selectors.may_everywhere(actor, Right.PEOPLE_ADMIN),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "accounts/team.html", context, parts=("listing",), status=status)


@require_POST
@signed_in
@refusals_at_the_form
def set_member(request: HttpRequest, name: str) -> HttpResponse:
    """Put someone into the team, or give them another role there."""
    actor = actors.of_request(request)
    shown = _team(actor, name)
    given = filled(MemberForm(request.POST)).cleaned_data
    rights.require(actor, Right.PEOPLE_ADMIN, shown)
    # Whom one adds is no colleague yet: an admin may name anybody who has an account.
    user = User.objects.filter(username=given["username"]).first()
    if user is None:
        return refused(request, _("There is no person named %(name)s.") % {"name": given["username"]})
    reason = request.POST.get("reason", "").strip()[:MAX_REASON]
    teams.set_role(actor=actor, user=user, team=shown, role=given["role"], reason=reason)
    said = _("%(name)s is now %(role)s of %(team)s.")
    role = str(Role(given["role"]).label).lower()
    return done(request, said % {"name": user, "role": role, "team": shown})


@require_POST
@signed_in
@refusals_at_the_form
def remove_member(request: HttpRequest, name: str, username: str) -> HttpResponse:
    actor = actors.of_request(request)
    membership = selectors.members(actor, name).filter(user__username=username).first()
    if membership is None:
        raise Http404(_("There is no such member."))
    teams.remove_member(actor=actor, membership=membership, reason=reason_of(request))
    return done(request, _("%(name)s is no longer in %(team)s.") % {"name": username, "team": name})


@require_POST
@signed_in
@refusals_at_the_form
def delete_team(request: HttpRequest, name: str) -> HttpResponse:
    actor = actors.of_request(request)
    teams.delete_team(actor=actor, team=_team(actor, name))
    return done(request, _("Team %(name)s is deleted.") % {"name": name}, to="/settings/teams/")


def _team(actor: Actor, name: str) -> Team:
    found = selectors.teams_where(actor, Right.READ).filter(name=name).first()
    if found is None:
        raise Http404(_("There is no such team, or you are not in it."))
    return found
