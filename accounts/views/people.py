"""People: the list, one of them, a new one."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Prefetch
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts import actors, selectors
from accounts.filters import PersonFilter
from accounts.forms import NewPersonForm, PasswordForm, PersonForm
from accounts.models import Membership, User
from accounts.services import people
from accounts.states import Right
from accounts.views.new import NewPage
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, filled, reason_of
from common.pages.listing import list_page

NEW_PERSON = NewPage(
    gettext_lazy("Add person"),
    room=gettext_lazy("People"),
    room_url="/settings/people/",
    submit=gettext_lazy("Add person"),
    who=gettext_lazy(
        "Admins of a team add people to it; administrators of the installation add them to any team."
    ),
)
SORTS = {"name": "username", "email": "email", "joined": "date_joined", "login": "last_login"}


@require_safe
@signed_in
def people_list(request: HttpRequest) -> HttpResponse:
    actor = actors.of_request(request)
    listing = list_page(request, _people(actor), sorts=SORTS, default_sort="name", filters=PersonFilter)
    context = {"listing": listing, "may_add": selectors.may(actor, Right.PEOPLE_ADMIN)}
    return page(request, "accounts/people.html", context, parts=("listing",))


def _people(actor: Actor) -> Any:
    """Return the people whom the actor may know of, with their teams that the actor may know of."""
    teams = selectors.teams_where(actor, Right.READ)
    shared = Membership.objects.filter(team__in=teams).select_related("team").order_by("team__name")
    return selectors.people(actor).prefetch_related(
        Prefetch("memberships", queryset=shared, to_attr="shared_memberships")
    )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_person(request: HttpRequest) -> HttpResponse:
    actor = actors.of_request(request)
    is_open = selectors.may(actor, Right.PEOPLE_ADMIN)
    everywhere = selectors.may_everywhere(actor, Right.PEOPLE_ADMIN)
    form = NewPersonForm(
        request.POST if request.method == "POST" and is_open else None, actor=actor, everywhere=everywhere
    )
    if form.is_bound and form.is_valid():
        given = form.cleaned_data
        try:
            user = people.create_user(actor=actor, **given | {"password": given["password"] or None})
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(
                request, _("%(name)s can sign in now.") % {"name": user}, to=f"/settings/people/{user}/"
            )
    return NEW_PERSON.with_form(request, form, is_open=is_open)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def person(request: HttpRequest, username: str) -> HttpResponse:
    actor = actors.of_request(request)
    shown = _person(actor, username)
    may_change = selectors.may_everywhere(actor, Right.PEOPLE_ADMIN) and not shown.is_machine
    initial = {
        name: getattr(shown, name)
        for name in ("first_name", "last_name", "email", "is_superuser", "revision")
    }
    form = PersonForm(request.POST if request.method == "POST" else None, initial=initial)
    if form.is_bound and form.is_valid():
        given = dict(form.cleaned_data)
        try:
            people.change_user(actor=actor, user=shown, expected=given.pop("revision"), **given)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(request, _("Saved."), to=f"/settings/people/{username}/")
    context = {
        "shown": shown,
        "form": form,
        "may_change": may_change,
        "may_audit": selectors.may(actor, Right.AUDIT_READ),
        "password_form": PasswordForm(auto_id="new_%s"),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "accounts/person.html", context, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def password(request: HttpRequest, username: str) -> HttpResponse:
    actor = actors.of_request(request)
    given = filled(PasswordForm(request.POST)).cleaned_data
    people.set_password(actor=actor, user=_person(actor, username), **given)
    said = _("%(name)s has a new password. All of their sessions have ended, and a lockout is lifted.")
    return done(request, said % {"name": username})


@require_POST
@signed_in
@refusals_at_the_form
def activate(request: HttpRequest, username: str) -> HttpResponse:
    """Let someone in, or keep them out: `active` is `yes` or `no`."""
    actor = actors.of_request(request)
    is_active = request.POST.get("active") == "yes"
    why = reason_of(request, is_demanded=not is_active)
    people.change_user(actor=actor, user=_person(actor, username), is_active=is_active, reason=why)
    said = (
        _("%(name)s can sign in again.")
        if is_active
        else _("%(name)s can no longer sign in, and their tokens no longer work.")
    )
    return done(request, said % {"name": username})


def _person(actor: Actor, username: str) -> User:
    found: User | None = _people(actor).filter(username=username).first()
    if found is None:
        raise Http404(_("There is no such person, or you share no team."))
    return found
