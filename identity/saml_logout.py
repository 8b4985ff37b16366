"""SAML 2.0 single logout by HTTP-Redirect, both ways: Slipway asks the provider, or the provider Slipway.

Only with a key of our own: what ends sessions is signed. See SAML 2.0 Profiles, 4.4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.urls import reverse

from identity import saml, saml_keys
from identity.assertions import use_once
from identity.errors import BadAssertion

OLDEST_SECONDS = 300
"""Of a request to sign out, whose clock may differ by so much."""


@dataclass(frozen=True, slots=True)
class SamlSession:
    """A session of the provider, as it must be named to end it."""

    name_id: str
    name_id_format: str
    name_qualifiers: Sequence[str]
    session_index: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LogoutRequest:
    """The provider's wish that sessions end, and where the browser goes with our answer."""

    name_id: str
    session_indexes: Sequence[str]
    """Empty: all of that person."""
    answer_url: str


def request_to_sign_out(session: Mapping[str, Any]) -> str:
    """Return where to send the browser; empty when either side offers no single logout. Raises
    ProviderUnavailable.
    """
    from onelogin.saml2.auth import OneLogin_Saml2_Auth

    known = saml.provider()
    if not saml_keys.has_key() or not known.get("singleLogoutService", {}).get("url"):
        return ""
    one = SamlSession(**session)
    auth = OneLogin_Saml2_Auth(saml.at(reverse("saml-sign-out")), saml.configured(known))
    nq, spnq = one.name_qualifiers
    url: str = auth.logout(
        return_to="",
        name_id=one.name_id or None,
        name_id_format=one.name_id_format,
        session_index=one.session_index or None,
        nq=nq or None,
        spnq=spnq or None,
    )
    return url


def asked_to_sign_out(parameters: Mapping[str, str], query: str) -> LogoutRequest:
    """Read the provider's signed request in an address. Raises BadAssertion, ProviderUnavailable."""
    from onelogin.saml2.logout_request import OneLogin_Saml2_Logout_Request
    from onelogin.saml2.utils import OneLogin_Saml2_Utils

    known = saml.provider()
    auth = _auth(known, parameters, query, wantMessagesSigned=True)
    try:
        url = auth.process_slo(keep_local_session=True)
        xml = auth.get_last_request_xml() or ""
        if not url or auth.get_errors():
            raise BadAssertion(auth.get_last_error_reason() or ", ".join(auth.get_errors()))
        found = LogoutRequest(
            saml.opened(lambda key: _name_id(xml, key)),
            tuple(one[:255] for one in OneLogin_Saml2_Logout_Request.get_session_indexes(xml)),
            url,
        )
        issued = OneLogin_Saml2_Utils.parse_SAML_to_time(_attribute(xml, "IssueInstant"))
        name = str(OneLogin_Saml2_Logout_Request.get_id(xml))
    except BadAssertion:
        raise
    except Exception as error:  # whatever the parser makes of hostile XML
        raise BadAssertion(f"It cannot be accepted: {error}") from error
    now = int(datetime.now(UTC).timestamp())
    if abs(now - issued) > OLDEST_SECONDS:
        raise BadAssertion("It is too old.")
    use_once({"iss": str(known["entityId"]), "jti": name, "exp": now + 2 * OLDEST_SECONDS})
    return found


def _name_id(xml: str, key: str) -> str:
    """Return the NameID of a request to sign out. Raises BadAssertion."""
    from onelogin.saml2.logout_request import OneLogin_Saml2_Logout_Request

    try:
        return str(OneLogin_Saml2_Logout_Request.get_nameid(xml, key))
    except Exception as error:
        raise BadAssertion(f"It cannot be accepted: {error}") from error


def check_answer(parameters: Mapping[str, str], query: str) -> None:
    """The provider's answer to our request. Raises BadAssertion unless it says, signed, that all ended;
    ProviderUnavailable.
    """
    auth = _auth(saml.provider(), parameters, query, wantMessagesSigned=True)
    try:
        auth.process_slo(keep_local_session=True)
    except Exception as error:
        raise BadAssertion(f"It cannot be accepted: {error}") from error
    if auth.get_errors():
        raise BadAssertion(auth.get_last_error_reason() or ", ".join(auth.get_errors()))


def _auth(known: Mapping[str, Any], parameters: Mapping[str, str], query: str, **security: bool) -> Any:
    from onelogin.saml2.auth import OneLogin_Saml2_Auth

    if any(len(text) > saml.MAX_ANSWER for text in parameters.values()):
        raise BadAssertion("It is too long.")
    request = saml.at(reverse("saml-sign-out")) | {
        "get_data": dict(parameters),
        "query_string": query,
        "validate_signature_from_qs": True,
    }
    return OneLogin_Saml2_Auth(request, saml.configured(known, security=security))


def _attribute(xml: str, name: str) -> str:
    from onelogin.saml2.xml_utils import OneLogin_Saml2_XML

    return str(OneLogin_Saml2_XML.to_etree(xml).get(name, ""))


def is_offered() -> bool:
    """Whether providers may ask us."""
    return bool(settings.SLIPWAY_SAML_METADATA) and saml_keys.has_key()
