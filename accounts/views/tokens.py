"""API tokens: one's own; everyone's for administrators."""

from typing import cast

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts import actors, selectors
from accounts.filters import TokenFilter
from accounts.forms import TokenForm
from accounts.models import User
from accounts.services import tokens
from accounts.states import Right
from accounts.views.new import NewPage
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page

NEW_TOKEN = NewPage(
    gettext_lazy("New API token"),
    room=gettext_lazy("API tokens"),
    room_url="/settings/tokens/",
    submit=gettext_lazy("Create token"),
    template="accounts/new_token.html",
)
SORTS = {"name": "name", "owner": "owner__username", "created": "created_at", "expires": "expires_at",
         "used": "last_used_at"}  # fmt: skip


@require_safe
@signed_in
def token_list(request: HttpRequest) -> HttpResponse:
    actor = actors.of_request(request)
    listing = list_page(
        request, selectors.tokens(actor), sorts=SORTS, default_sort="-created", filters=TokenFilter
    )
    context = {"listing": listing, "sees_all": selectors.may_everywhere(actor, Right.PEOPLE_ADMIN)}
    return page(request, "accounts/tokens.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_token(request: HttpRequest) -> HttpResponse:
    """Its answer is the one place where the secret is shown: it is neither stored nor sent again."""
    actor = actors.of_request(request)
    form = TokenForm(request.POST if request.method == "POST" else None, actor=actor)
    if form.is_bound and form.is_valid():
        try:
            issued = tokens.create_token(actor=actor, owner=cast("User", request.user), **form.wishes())
        except (SlipwayError, ValidationError) as error:
            blame(form, error, {"expires_at": "days"})
        else:
            context = {"token": issued.token, "secret": issued.text}
            answer = page(request, "accounts/token_issued.html", context, status=201)
            answer["Cache-Control"] = "no-store"
            return answer
    return NEW_TOKEN.with_form(request, form)


@require_POST
@signed_in
@refusals_at_the_form
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    actor = actors.of_request(request)
    token = selectors.tokens(actor).filter(pk=pk).first()
    if token is None:
        raise Http404(_("There is no such token, or it is not yours."))
    tokens.revoke_token(actor=actor, token=token, reason=reason_of(request, is_demanded=False))
    return done(request, _("%(name)s is revoked: it no longer works.") % {"name": token.name})
