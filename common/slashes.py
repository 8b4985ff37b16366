from functools import partial

from django.http import HttpResponsePermanentRedirect
from django.middleware.common import CommonMiddleware


class SlashMiddleware(CommonMiddleware):
    """Redirects to the address with its closing slash by 308: the method and the body of a POST survive."""

    response_redirect_class = partial(HttpResponsePermanentRedirect, preserve_request=True)  # type: ignore[assignment]
