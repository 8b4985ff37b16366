"""Oneself: name and address, and what one may do where."""

from typing import cast

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts import actors
from accounts.forms import OwnAccountForm
from accounts.models import Membership, User, WebhookEndpoint
from accounts.services import people
from accounts.states import RIGHTS, Right, Role
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page
from common.pages.forms import blame


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def account(request: HttpRequest) -> HttpResponse:
    user = cast("User", request.user)
    initial = {name: getattr(user, name) for name in OwnAccountForm.base_fields}
    form = OwnAccountForm(request.POST if request.method == "POST" else None, initial=initial)
    if form.is_bound and form.is_valid():
        try:
            people.change_user(actor=actors.of_request(request), user=user, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            if user.language:
                translation.activate(user.language)
            return done(request, _("Saved."), to="/settings/account/")
    memberships = Membership.objects.filter(user=user).select_related("team").order_by("team__name")
    context = {
        "form": form,
        "account": user,
        "own_webhooks": WebhookEndpoint.objects.filter(person=user).select_related("person"),
        "memberships": [
            (one, [right.label for right in Right if right in RIGHTS[Role(one.role)]]) for one in memberships
        ],
    }
    return page(request, "accounts/account.html", context, status=UNPROCESSABLE if form.is_bound else 200)
