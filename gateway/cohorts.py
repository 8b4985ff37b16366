"""Recognition of a cohort's requests. Pure."""

import re
from collections.abc import Mapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie

from django.utils.translation import gettext as _

from gateway.routes import Cohort
from serving.protocol import CHOSEN_BY_HEADER

HEADER = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
COHORT_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,126}[\x21-\x7e])?")
TAKEN_HEADERS = frozenset(
    {"x-release", "x-release-key", CHOSEN_BY_HEADER, "host", "cookie", "authorization", "connection"}
)
"""No cohort can be told by them: they are the gateway's own, secret, or have a field of their own."""


def cohort_fault(cohort: Cohort) -> str:
    """Return the fault of the cohort by itself, in the reader's language; empty: none."""
    if bool(cohort.header) == bool(cohort.cookie):
        return _("a cohort is selected by a header or by a cookie: name one of them.")
    if cohort.header and (not HEADER.fullmatch(cohort.header) or cohort.header in TAKEN_HEADERS):
        words = _(
            "'%(header)s' cannot select a cohort; use a header of your own in lower case, such as x-cohort."
        )
        return words % {"header": cohort.header}
    if cohort.cookie and not HEADER.fullmatch(cohort.cookie.lower()):
        return _("'%(cookie)s' is no name of a cookie.") % {"cookie": cohort.cookie}
    if bool(cohort.value) == bool(cohort.percent):
        return _("a cohort has a value or a percentage of values: give one of them.")
    if cohort.percent and not (cohort.header and 1 <= cohort.percent <= 99):
        return _("a percentage of values is 1 to 99, and of a header.")
    if cohort.value and not COHORT_VALUE.fullmatch(cohort.value):
        return _("the value of a cohort is 1 to 128 visible ASCII characters.")
    if cohort.cookie and set(cohort.value) & set(' ",;\\'):
        return _("the value of a cookie has no space, quote, comma, semicolon or backslash.")
    return ""


def cookie_pattern(cohort: Cohort) -> str:
    """Return the pattern (RE2) of a whole header `cookie` that has this cookie with this value."""
    return rf"(.*;\s*)?{re.escape(cohort.cookie)}={re.escape(cohort.value)}(\s*;.*)?"


def is_of(cohort: Cohort, headers: Mapping[str, str]) -> bool | None:
    """Tell whether a request is of the cohort; None: it cannot be told. `headers` by names in lower case."""
    if cohort.cookie:
        try:
            jar = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return None
        return True if cohort.cookie in jar and jar[cohort.cookie].value == cohort.value else None
    value = headers.get(cohort.header)
    if value is None:
        return None
    if cohort.percent:
        return int(sha256(value.encode()).hexdigest(), 16) % 100 < cohort.percent
    return True if value == cohort.value else None
