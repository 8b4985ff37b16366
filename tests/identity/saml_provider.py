"""A SAML 2.0 identity provider for tests: metadata, and signed answers in which anything can be wrong."""

import base64
import secrets
import zlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.x509.oid import NameOID
from lxml import etree
from onelogin.saml2.utils import OneLogin_Saml2_Utils

PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"


def _stamp(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class SamlProvider:
    entity_id: str = "https://idp.example.org/saml"
    sign_on_url: str = "https://idp.example.org/sign-on"
    name_id: str = "7f3a"
    name_id_format: str = PERSISTENT
    attributes: dict[str, list[str]] = field(default_factory=dict)
    audience: str | None = "http://testserver/accounts/saml/metadata/"
    recipient: str = "http://testserver/accounts/saml/acs/"
    lives_seconds: float = 300
    session_seconds: float | None = None

    def __post_init__(self) -> None:
        self.key = generate_private_key(65537, 2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "idp")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .sign(self.key, hashes.SHA256())
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM).decode()

    def but(self, **other: object) -> Self:
        """The same provider, with the same key, that says something else."""
        key, certificate = self.key, self.certificate
        found = replace(self, **other)
        found.key, found.certificate = key, certificate
        return found

    @property
    def metadata(self) -> str:
        body = "".join(self.certificate.split("\n")[1:-2])
        return f"""<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata"
            xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="{self.entity_id}">
          <md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
            <md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data>
              <ds:X509Certificate>{body}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>
            <md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
              Location="{self.sign_on_url}"/>
          </md:IDPSSODescriptor></md:EntityDescriptor>"""

    def asked(self, location: str) -> str:
        """The id of the request to which Slipway sends the browser."""
        assert location.startswith(self.sign_on_url)
        sent = parse_qs(urlsplit(location).query)["SAMLRequest"][0]
        return etree.fromstring(zlib.decompress(base64.b64decode(sent), -15)).get("ID")

    def answer(self, request_id: str | None, *, signed: str = "assertion") -> str:
        """As the browser posts it. `signed`: assertion, response or nothing."""
        assertion = self._assertion(request_id)
        if signed == "assertion":
            assertion = self._signed(assertion)
        to = f' InResponseTo="{request_id}"' if request_id else ""
        response = f"""<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol"
          xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_{secrets.token_hex(8)}" Version="2.0"
          IssueInstant="{_stamp(0)}" Destination="{self.recipient}"{to}>
          <saml:Issuer>{self.entity_id}</saml:Issuer>
          <samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status>
          {assertion}</samlp:Response>"""
        if signed == "response":
            response = self._signed(response)
        return base64.b64encode(response.encode()).decode()

    def _assertion(self, request_id: str | None) -> str:
        to = f' InResponseTo="{request_id}"' if request_id else ""
        until = (
            "" if self.session_seconds is None else f' SessionNotOnOrAfter="{_stamp(self.session_seconds)}"'
        )
        told = "".join(
            f'<saml:Attribute Name="{name}">'
            + "".join(f"<saml:AttributeValue>{value}</saml:AttributeValue>" for value in values)
            + "</saml:Attribute>"
            for name, values in self.attributes.items()
        )
        audience = (
            f"<saml:AudienceRestriction><saml:Audience>{self.audience}</saml:Audience></saml:AudienceRestriction>"
            if self.audience
            else ""
        )
        ends = _stamp(self.lives_seconds)
        return f"""<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"
          ID="_{secrets.token_hex(8)}" Version="2.0" IssueInstant="{_stamp(0)}">
          <saml:Issuer>{self.entity_id}</saml:Issuer>
          <saml:Subject><saml:NameID Format="{self.name_id_format}">{self.name_id}</saml:NameID>
          <saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer">
          <saml:SubjectConfirmationData NotOnOrAfter="{ends}" Recipient="{self.recipient}"{to}/>
          </saml:SubjectConfirmation></saml:Subject>
          <saml:Conditions NotBefore="{_stamp(-60)}" NotOnOrAfter="{ends}">{audience}</saml:Conditions>
          <saml:AuthnStatement AuthnInstant="{_stamp(0)}"{until}><saml:AuthnContext><saml:AuthnContextClassRef
          >urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext>
          </saml:AuthnStatement>{f"<saml:AttributeStatement>{told}</saml:AttributeStatement>" if told else ""}
          </saml:Assertion>"""

    @property
    def private_key(self) -> str:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ).decode()

    def _signed(self, xml: str) -> str:
        return OneLogin_Saml2_Utils.add_sign(xml, self.private_key, self.certificate).decode()
