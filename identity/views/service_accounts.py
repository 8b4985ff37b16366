"""Settings, service accounts: accounts of programs, and the CI jobs that they accept."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Prefetch, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts import actors
from accounts import selectors as accounts
from accounts.models import Membership, User
from accounts.services import people
from accounts.states import Right
from accounts.views.new import NewPage
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from identity import selectors
from identity.forms import CredentialForm, ServiceAccountForm
from identity.services import federation

NEW_ACCOUNT = NewPage(
    gettext_lazy("New service account"),
    room=gettext_lazy("Service accounts"),
    room_url="/settings/service-accounts/",
    submit=gettext_lazy("Create service account"),
    who=gettext_lazy("Admins of a team create service accounts for it."),
)


@require_safe
@signed_in
def account_list(request: HttpRequest) -> HttpResponse:
    actor = actors.of_request(request)
    listing = list_page(request, _accounts(actor), sorts={"name": "username"}, default_sort="name")
    context = {"listing": listing, "may_add": accounts.may(actor, Right.PEOPLE_ADMIN)}
    return page(request, "identity/service_accounts.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_account(request: HttpRequest) -> HttpResponse:
    actor = actors.of_request(request)
    is_open = accounts.may(actor, Right.PEOPLE_ADMIN)
    form = ServiceAccountForm(request.POST if request.method == "POST" and is_open else None, actor=actor)
    if form.is_bound and form.is_valid():
        try:
            made = people.create_service_account(actor=actor, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            said = _("%(name)s is created. Say which CI jobs it accepts.") % {"name": made}
            return done(request, said, to=f"/settings/service-accounts/{made}/")
    return NEW_ACCOUNT.with_form(request, form, is_open=is_open)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def account(request: HttpRequest, username: str) -> HttpResponse:
    actor = actors.of_request(request)
    shown = _account(actor, username)
    form = CredentialForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            federation.create_credential(actor=actor, account=shown, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            said = _("%(name)s accepts these CI jobs now.") % {"name": username}
            return done(request, said, to=f"/settings/service-accounts/{username}/")
    context: dict[str, Any] = {
        "shown": shown,
        "form": form,
        "credentials": selectors.credentials(actor).filter(account=shown).order_by("name"),
        "may_change": federation.may_manage(actor, shown),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "identity/service_account.html", context, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def delete_credential(request: HttpRequest, username: str, pk: int) -> HttpResponse:
    actor = actors.of_request(request)
    found = selectors.credentials(actor).filter(pk=pk, account__username=username).first()
    if found is None:
        raise Http404(_("There is no such credential, or you may not see it."))
    reason = reason_of(request, is_demanded=False)
    federation.delete_credential(actor=actor, credential=found, reason=reason)
    said = _("%(name)s is deleted. Tokens that it gave last minutes at most.") % {"name": found.name}
    return done(request, said, to=f"/settings/service-accounts/{username}/")


def _accounts(actor: Actor) -> QuerySet[User]:
    teams = accounts.teams_where(actor, Right.READ)
    shared = Membership.objects.filter(team__in=teams).select_related("team").order_by("team__name")
    return selectors.service_accounts(actor).prefetch_related(
        Prefetch("memberships", queryset=shared, to_attr="shared_memberships")
    )


def _account(actor: Actor, username: str) -> User:
    found: User | None = _accounts(actor).filter(username=username).first()
    if found is None:
        raise Http404(_("There is no such service account, or you share no team."))
    return found
