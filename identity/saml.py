"""The SAML 2.0 provider that settings name: what it publishes, requests to it, and its answers once verified.

python3-saml verifies. Beyond it an answer must name Slipway as its audience, must name somebody for good,
and is taken once.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse

from identity import saml_keys
from identity.assertions import use_once
from identity.errors import BadAssertion, ProviderUnavailable
from identity.published import REMEMBERED_SECONDS, CachedDocuments, body_of

Read = TypeVar("Read")
PROVIDER = "saml"
TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
UNSPECIFIED = "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified"
REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
MAX_ANSWER = 512 * 1024
METADATA_FOR = "P1D"
"""After which a provider that reads our metadata by its address should read it again."""
ATTRIBUTES: Mapping[str, Sequence[str]] = {
    "uid": (
        "urn:oasis:names:tc:SAML:attribute:subject-id",
        "urn:oasis:names:tc:SAML:attribute:pairwise-id",
        "http://schemas.microsoft.com/identity/claims/objectidentifier",
    ),
    "username": (
        "username",
        "uid",
        "login",
        "urn:oid:0.9.2342.19200300.100.1.1",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",
    ),
    "email": (
        "email",
        "mail",
        "urn:oid:0.9.2342.19200300.100.1.3",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
    ),
    "first_name": (
        "firstName",
        "givenName",
        "urn:oid:2.5.4.42",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/givenname",
    ),
    "last_name": (
        "lastName",
        "surname",
        "sn",
        "urn:oid:2.5.4.4",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/surname",
    ),
}
"""What is read of a person, under the names that Okta, Entra, Keycloak and LDAP give it; the first wins."""

_published = CachedDocuments()


@dataclass(frozen=True, slots=True)
class SamlAssertion:
    """The provider's verified statement about a person, in the form that allauth asks for."""

    name_id: str
    name_id_format: str
    attributes: dict[str, list[str]]
    request_id: str
    """The request that it answers; empty: nobody has asked."""
    session_until: int | None
    """Epoch seconds at which the provider ends its own session."""
    session_index: str = ""
    """The provider's name for that."""
    name_qualifiers: tuple[str, str] = ("", "")
    """NameQualifier and SPNameQualifier of the NameID."""

    def get_attributes(self) -> dict[str, list[str]]:
        return self.attributes

    def get_nameid(self) -> str:
        return self.name_id

    def get_nameid_format(self) -> str:
        return self.name_id_format

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        nq, spnq = kept.get("name_qualifiers", ("", ""))
        return cls(**{**kept, "name_qualifiers": (nq, spnq)})


def forget() -> None:
    """Forget what this process remembers of the provider."""
    _published.clear()


def entity_id() -> str:
    """Slipway's own, which is the address of its metadata."""
    return settings.SLIPWAY_PUBLIC_URL + reverse("saml-metadata")


def own_metadata() -> bytes:
    """XML for the provider. Needs nothing of the provider. Raises ProviderUnavailable."""
    from onelogin.saml2.settings import OneLogin_Saml2_Settings

    saml_keys.certificates()
    # Only `wantAssertionsEncrypted` shows the certificate for encryption, too. It has no end: a provider that
    # was given the file once would refuse everybody from then on.
    own = configured(
        {},
        security={
            "wantAssertionsEncrypted": saml_keys.has_key(),
            "metadataValidUntil": "",
            "metadataCacheDuration": METADATA_FOR,
        },
    )
    told = OneLogin_Saml2_Settings(own, sp_validation_only=True).get_sp_metadata()
    return told if isinstance(told, bytes) else str(told).encode()


def request_to_sign_in() -> tuple[str, str]:
    """Return where to send the browser, and the id of the request. Raises ProviderUnavailable."""
    from onelogin.saml2.auth import OneLogin_Saml2_Auth

    auth = OneLogin_Saml2_Auth(at(reverse("saml-login")), configured(provider()))
    return auth.login(return_to=""), auth.get_last_request_id()


def verified(response: str) -> SamlAssertion:
    """Verify a posted `SAMLResponse`. Raises BadAssertion, ProviderUnavailable."""
    if not response or len(response) > MAX_ANSWER:
        raise BadAssertion("There is no SAMLResponse, or one that is too long.")
    known = provider()
    answer, audiences, assertion, until = opened(lambda key: _verified(known, response, key))
    if entity_id() not in audiences:
        raise BadAssertion("It is for another audience, or for none.")
    has_uid = any(answer.attributes.get(name) for name in ATTRIBUTES["uid"])
    if not has_uid and (not answer.name_id or answer.name_id_format == TRANSIENT):
        raise BadAssertion("It names nobody for good: its NameID is transient or missing.")
    ends = until or int(datetime.now(UTC).timestamp()) + 3_600
    use_once({"iss": str(known["entityId"]), "jti": assertion, "exp": ends})
    return answer


def opened(read: Callable[[str], Read]) -> Read:
    """Call `read` with each of our private keys until one works; with "" if there is none. Raises what it
    raised with the first.
    """
    first, *others = saml_keys.private_keys() or [""]
    try:
        return read(first)
    except BadAssertion:
        for key in others:
            with suppress(BadAssertion):
                return read(key)
        raise


def _verified(
    known: Mapping[str, Any], response: str, key: str
) -> tuple[SamlAssertion, Sequence[str], str, int | None]:
    """And for whom it is, its name, and the epoch second at which it ends. Raises BadAssertion."""
    from onelogin.saml2.response import OneLogin_Saml2_Response
    from onelogin.saml2.settings import OneLogin_Saml2_Settings

    own = OneLogin_Saml2_Settings(configured(known, key=key))
    try:
        told = OneLogin_Saml2_Response(own, response)
        told.is_valid(at(reverse("saml-acs")), raise_exceptions=True)
        audiences = told.get_audiences()
        answer = SamlAssertion(
            name_id=told.get_nameid() or "",
            name_id_format=told.get_nameid_format() or UNSPECIFIED,
            attributes=told.get_attributes(),
            request_id=told.get_in_response_to() or "",
            session_until=told.get_session_not_on_or_after(),
            session_index=(told.get_session_index() or "")[:255],
            name_qualifiers=(told.get_nameid_nq() or "", told.get_nameid_spnq() or ""),
        )
        return answer, audiences, told.get_assertion_id(), told.get_assertion_not_on_or_after()
    except Exception as error:  # whatever the parser makes of hostile XML
        raise BadAssertion(f"It cannot be accepted: {error}") from error


def groups_left_out(attributes: Mapping[str, Any]) -> bool:
    """Microsoft Entra sends a link in place of too many groups."""
    return any(name.endswith("/claims/groups.link") for name in attributes)


def provider() -> Mapping[str, Any]:
    """Read its metadata: entityId, singleSignOnService, certificates. Raises ProviderUnavailable."""
    source = settings.SLIPWAY_SAML_METADATA
    known: Mapping[str, Any] = _published.get(source, lambda: _read(source), seconds=REMEMBERED_SECONDS)
    return known


def _read(source: str) -> Mapping[str, Any]:
    from onelogin.saml2.idp_metadata_parser import OneLogin_Saml2_IdPMetadataParser

    try:
        body = (
            body_of(source, accept="application/samlmetadata+xml, application/xml")
            if source.startswith("http")
            else Path(source).read_bytes()
        )
    except OSError as error:
        raise ProviderUnavailable(f"SLIPWAY_SAML_METADATA cannot be read: {error}") from error
    wanted = settings.SLIPWAY_SAML_ENTITY_ID or None
    try:
        found = OneLogin_Saml2_IdPMetadataParser.parse(body, entity_id=wanted).get("idp", {})
    except Exception as error:
        raise ProviderUnavailable(f"SLIPWAY_SAML_METADATA is no SAML metadata: {error}") from error
    has_certificate = bool(found.get("x509cert") or (found.get("x509certMulti") or {}).get("signing"))
    if not (found.get("entityId") and found.get("singleSignOnService") and has_certificate):
        raise ProviderUnavailable(
            "SLIPWAY_SAML_METADATA names no identity provider with an address for HTTP-Redirect and a "
            f"certificate{f' and the entity id {wanted}' if wanted else ''}."
        )
    return dict(found)


def configured(
    provider: Mapping[str, Any], *, key: str = "", security: Mapping[str, bool | str] | None = None
) -> dict[str, Any]:
    """Return the settings of python3-saml; `key`: another of our keys than the first. Raises
    ProviderUnavailable when our own key cannot be read.
    """
    signs = saml_keys.has_key()
    shown = saml_keys.certificate_texts()
    sign_out = {"url": settings.SLIPWAY_PUBLIC_URL + reverse("saml-sign-out"), "binding": REDIRECT}
    return {
        "strict": True,
        "idp": dict(provider),
        "sp": {
            "entityId": entity_id(),
            "assertionConsumerService": {
                "url": settings.SLIPWAY_PUBLIC_URL + reverse("saml-acs"),
                "binding": "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST",
            },
            "NameIDFormat": UNSPECIFIED,
            **({"singleLogoutService": sign_out} if signs else {}),
            "x509cert": shown[0] if signs else "",
            **({"x509certNew": shown[1]} if len(shown) > 1 else {}),
            "privateKey": key or (saml_keys.private_keys()[0] if signs else ""),
        },
        "security": {
            "requestedAuthnContext": False,
            "rejectDeprecatedAlgorithm": True,
            "wantAttributeStatement": False,
            "wantNameId": False,
            "allowRepeatAttributeName": True,
            "allowSingleLabelDomains": True,
            "authnRequestsSigned": signs,
            "logoutRequestSigned": signs,
            "logoutResponseSigned": signs,
            "wantAssertionsEncrypted": settings.SLIPWAY_SAML_REQUIRE_ENCRYPTION,
            **(security or {}),
        },
    }


def at(path: str) -> dict[str, Any]:
    """A request to this path, by the public address: what a proxy made of it plays no part."""
    parts = urlsplit(settings.SLIPWAY_PUBLIC_URL)
    return {
        "https": "on" if parts.scheme == "https" else "off",
        "http_host": parts.netloc,
        "script_name": "",
        "path_info": path,
        "get_data": {},
        "post_data": {},
    }
