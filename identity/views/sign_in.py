import logging

from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _

from identity.errors import ProviderUnavailable
from identity.provider import OpenIDConnectAdapter

logger = logging.getLogger(__name__)


def start_single_sign_on(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Redirect to the identity provider; when that does not answer, show a page that says so."""
    try:
        view = OAuth2LoginView.adapter_view(OpenIDConnectAdapter(request, provider_id))
        response: HttpResponseBase = view(request)
    except SocialApp.DoesNotExist:
        raise Http404(_("There is no such identity provider.")) from None
    except ProviderUnavailable as error:
        logger.warning("The identity provider does not answer as it should: %s", error)
        return render(request, "socialaccount/authentication_error.html", status=502)
    return response


def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Take the answer of the identity provider: start a session, or show a page that says why not."""
    try:
        view = OAuth2CallbackView.adapter_view(OpenIDConnectAdapter(request, provider_id))
        response: HttpResponseBase = view(request)
    except SocialApp.DoesNotExist:
        raise Http404(_("There is no such identity provider.")) from None
    except (ProviderUnavailable, ValueError, KeyError) as error:
        logger.warning("The identity provider does not answer as it should: %s", error)
        return render(request, "socialaccount/authentication_error.html", status=502)
    return response
