"""Single sign-on by SAML 2.0. The provider posts its answer from its own site, whence the browser sends no
cookie of ours: it is verified and kept for a moment, and the redirect that follows has the cookies."""

import logging
from typing import Any

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import complete_social_login
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.base.utils import respond_to_login_on_get
from allauth.socialaccount.sessions import LoginSession
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from identity import saml, saml_logout
from identity.errors import BadAssertion, ProviderUnavailable
from identity.services import sign_on

logger = logging.getLogger(__name__)
KEPT = "saml_answer"


def start(request: HttpRequest) -> HttpResponseBase:
    """Redirect to the identity provider; when nothing is known of that, show a page that says so."""
    provider = _provider(request)
    asked: HttpResponseBase | None = respond_to_login_on_get(request, provider)
    if asked is not None:
        return asked
    try:
        response: HttpResponseBase = provider.redirect_from_request(request)
    except ProviderUnavailable as error:
        logger.warning("Nobody can sign in by SAML: %s", error)
        return _failed(request, 502)
    return response


@csrf_exempt
@require_POST
def answer(request: HttpRequest) -> HttpResponseBase:
    """The provider's answer, which is signed.

    An answer to no request leads to the sign-in page: whoever sent it could otherwise sign somebody in as
    somebody else.
    """
    _provider(request)
    try:
        told = saml.verified(request.POST.get("SAMLResponse", ""))
    except BadAssertion as error:
        logger.warning("An answer of the SAML provider is refused: %s", error)
        return _failed(request, 403)
    except ProviderUnavailable as error:
        logger.warning("An answer of the SAML provider cannot be verified: %s", error)
        return _failed(request, 502)
    if not told.request_id:
        return HttpResponseRedirect(reverse("account_login"))
    response = HttpResponseRedirect(reverse("saml-finish"))
    kept = _kept(request)
    kept.store.update({KEPT: told.as_json()})
    kept.save(response)
    return response


@require_safe
def finish(request: HttpRequest) -> HttpResponseBase:
    """A session for whom the provider has vouched, in the browser that had asked."""
    provider = _provider(request)
    kept = _kept(request)
    found = kept.store.get(KEPT)
    kept.delete()
    if not found:
        return _failed(request, 403)
    told = saml.SamlAssertion.from_json(found)
    login = provider.sociallogin_from_response(request, told)
    try:
        login.state = provider.unstash_redirect_state(request, told.request_id)
    except PermissionDenied:
        logger.warning("The SAML provider's answer is to a request that this browser has not sent.")
        return _failed(request, 403)
    login.session_until = told.session_until
    login.saml_session = saml_logout.SamlSession(
        told.name_id, told.name_id_format, told.name_qualifiers, told.session_index
    )
    response: HttpResponseBase = complete_social_login(request, login)
    return response


@require_safe
def metadata(request: HttpRequest) -> HttpResponse:
    """Return the metadata that the identity provider asks for when Slipway is registered there."""
    _provider(request)
    try:
        told = saml.own_metadata()
    except ProviderUnavailable as error:
        logger.warning("Our own SAML metadata cannot be told: %s", error)
        return _failed(request, 502)
    return HttpResponse(told, content_type="application/samlmetadata+xml")


@require_safe
def sign_out(request: HttpRequest) -> HttpResponseBase:
    """The provider asks to end sessions, or answers that it has ended its own."""
    _provider(request)
    told, query = request.GET.dict(), request.META.get("QUERY_STRING", "")
    if not saml_logout.is_offered() or not ({"SAMLRequest", "SAMLResponse"} & told.keys()):
        raise Http404(_("There is nothing to sign out of."))
    try:
        if "SAMLRequest" in told:
            asked = saml_logout.asked_to_sign_out(told, query)
            sign_on.log_out_by_saml(name_id=asked.name_id, session_indexes=asked.session_indexes)
            return HttpResponseRedirect(asked.answer_url)
        saml_logout.check_answer(told, query)
    except BadAssertion as error:
        logger.warning("A message of the SAML provider about signing out is refused: %s", error)
        if "SAMLRequest" in told:
            return _failed(request, 403)
        said = _(
            "You are signed out here, but your identity provider did not end its session. Sign out there, "
            "too."
        )
        messages.add_message(request, messages.WARNING, said, extra_tags="warn")
    except ProviderUnavailable as error:
        logger.warning("A message of the SAML provider cannot be verified: %s", error)
        return _failed(request, 502)
    return HttpResponseRedirect(reverse("signed-out"))


def _provider(request: HttpRequest) -> Any:
    try:
        return get_adapter().get_app(request, provider=saml.PROVIDER).get_provider(request)
    except SocialApp.DoesNotExist:
        raise Http404(_("There is no such identity provider.")) from None


def _kept(request: HttpRequest) -> Any:
    return LoginSession(request, KEPT, "saml-answer")


def _failed(request: HttpRequest, status: int) -> HttpResponse:
    return render(request, "socialaccount/authentication_error.html", status=status)
