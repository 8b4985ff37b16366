"""Signing out: here, and at the provider; and by the provider, who tells us."""

import logging

from allauth.account import views
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from identity.errors import BadAssertion, ProviderUnavailable
from identity.login import ID_TOKEN
from identity.services import sign_on

logger = logging.getLogger(__name__)


def log_out(request: HttpRequest) -> HttpResponseBase:
    """Ends the session here; one that began at the provider leads there, to be ended, too."""
    is_from_provider = request.method == "POST" and ID_TOKEN in request.session
    id_token = str(request.session.get(ID_TOKEN, "")) if is_from_provider else ""
    response: HttpResponseBase = views.logout(request)
    if not (is_from_provider and settings.SLIPWAY_OIDC_SERVER_URL):
        return response
    try:
        url = sign_on.end_session_url(id_token, back_to=settings.SLIPWAY_PUBLIC_URL + reverse("signed-out"))
    except ProviderUnavailable as error:
        logger.warning("The session at the identity provider was not ended: %s", error)
        said = _(
            "You are signed out here, but your identity provider cannot be reached. Sign out there, too."
        )
        messages.add_message(request, messages.WARNING, said, extra_tags="warn")
        return HttpResponseRedirect(reverse("signed-out"))
    return HttpResponseRedirect(url or reverse("signed-out"))


@require_safe
def signed_out(request: HttpRequest) -> HttpResponse:
    """Where the provider sends the browser back to. It must not lead to the sign-in at once."""
    return render(request, "account/signed_out.html")


@csrf_exempt
@require_POST
def backchannel(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The provider's signed word that somebody has signed out there."""
    if not settings.SLIPWAY_OIDC_SERVER_URL or provider_id != sign_on.provider_id():
        return _answer({"error": "invalid_request"}, 404)
    try:
        sign_on.log_out_from_provider(request.POST.get("logout_token", ""))
    except BadAssertion as error:
        logger.warning("A logout token is refused: %s", error)
        return _answer({"error": "invalid_request"}, 400)
    except ProviderUnavailable as error:
        logger.warning("A logout token cannot be verified: %s", error)
        return _answer({"error": "temporarily_unavailable"}, 503)
    return _answer({}, 200)


def _answer(content: dict[str, str], status: int) -> HttpResponse:
    return JsonResponse(content, status=status, headers={"Cache-Control": "no-store"})
