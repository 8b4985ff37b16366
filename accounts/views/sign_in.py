import logging

import requests
from allauth.socialaccount.providers.openid_connect import views as openid_connect
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

logger = logging.getLogger(__name__)


def start_single_sign_on(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """To the identity provider; when that does not answer, a page that says so."""
    try:
        response: HttpResponseBase = openid_connect.login(request, provider_id)
    except (requests.RequestException, ValueError, KeyError) as error:
        logger.warning("The identity provider does not answer as it should: %s", error)
        return render(request, "socialaccount/authentication_error.html", status=502)
    return response
