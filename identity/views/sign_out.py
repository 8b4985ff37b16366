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
from identity.login import ID_TOKEN, SAML_SESSION
from identity.saml_logout import request_to_sign_out
from identity.services import sign_on

logger = logging.getLogger(__name__)


def log_out(request: HttpRequest) -> HttpResponseBase:
    """Ends the session here; one that began at the provider leads there, to be ended, too."""
    kept = request.session if request.method == "POST" else {}
    id_token, saml_session = str(kept.get(ID_TOKEN, "")), kept.get(SAML_SESSION)
    response: HttpResponseBase = views.logout(request)
    try:
        if id_token and settings.SLIPWAY_OIDC_SERVER_URL:
            back_to = settings.SLIPWAY_PUBLIC_URL + reverse("signed-out")
            url = sign_on.end_session_url(id_token, back_to=back_to) or reverse("signed-out")
        elif saml_session and settings.SLIPWAY_SAML_METADATA:
            url = request_to_sign_out(saml_session)
        else:
            url = ""
    except ProviderUnavailable as error:
        logger.warning("The session at the identity provider was not ended: %s", error)
        said = _(
            "You are signed out here, but your identity provider cannot be reached. Sign out there, too."
        )
        messages.add_message(request, messages.WARNING, said, extra_tags="warn")
        return HttpResponseRedirect(reverse("signed-out"))
    return HttpResponseRedirect(url) if url else response


@require_safe
def signed_out(request: HttpRequest) -> HttpResponse:
    """Show the page to which the provider sends the browser back. It must not lead to the sign-in at once."""
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
