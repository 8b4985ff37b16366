"""A SAML 2.0 identity provider for tests: metadata, and signed answers in which anything can be wrong."""

import base64
import secrets
import zlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import xmlsec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, generate_private_key
from cryptography.x509.oid import NameOID
from lxml import etree
from onelogin.saml2.utils import OneLogin_Saml2_Utils

PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
SAML = "urn:oasis:names:tc:SAML:2.0:assertion"
TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"


def _stamp(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class SamlProvider:
    entity_id: str = "https://idp.example.org/saml"
    sign_on_url: str = "https://idp.example.org/sign-on"
    sign_out_url: str = "https://idp.example.org/sign-out"
    session_index: str = ""
    encrypts_for: str = ""
    """A certificate, as PEM; empty: nobody."""
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
            <md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
              Location="{self.sign_out_url}"/>
            <md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
              Location="{self.sign_on_url}"/>
          </md:IDPSSODescriptor></md:EntityDescriptor>"""

    def asked(self, location: str) -> str:
        """The id of the request to which Slipway sends the browser."""
        assert location.startswith(self.sign_on_url)
        sent = parse_qs(urlsplit(location).query)["SAMLRequest"][0]
        return etree.fromstring(zlib.decompress(base64.b64decode(sent), -15)).get("ID")

    def answer(self, request_id: str | None, *, signed: str = "assertion") -> str:
        """Return the answer as the browser posts it. `signed`: assertion, response or nothing."""
        assertion = self._assertion(request_id)
        if signed == "assertion":
            assertion = self._signed(assertion)
        if self.encrypts_for:
            assertion = self._encrypted(assertion)
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
        if self.session_index:
            until += f' SessionIndex="{self.session_index}"'
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

    def _encrypted(self, assertion: str) -> str:
        """Encrypt as SAML 2.0 Core, 2.3.4: AES-256 under RSA-OAEP."""
        holder = etree.fromstring(
            f'<saml:EncryptedAssertion xmlns:saml="{SAML}">{assertion}</saml:EncryptedAssertion>'
        )
        data = xmlsec.template.encrypted_data_create(
            holder, xmlsec.Transform.AES256, type=xmlsec.EncryptionType.ELEMENT, ns="xenc"
        )
        xmlsec.template.encrypted_data_ensure_cipher_value(data)
        info = xmlsec.template.encrypted_data_ensure_key_info(data, ns="ds")
        wrapped = xmlsec.template.add_encrypted_key(info, xmlsec.Transform.RSA_OAEP)
        xmlsec.template.encrypted_data_ensure_cipher_value(wrapped)
        keys = xmlsec.KeysManager()
        keys.add_key(xmlsec.Key.from_memory(self.encrypts_for, xmlsec.KeyFormat.CERT_PEM, None))
        context = xmlsec.EncryptionContext(keys)
        context.key = xmlsec.Key.generate(xmlsec.KeyData.AES, 256, xmlsec.KeyDataType.SESSION)
        context.encrypt_xml(data, holder[0])
        return etree.tostring(holder).decode()

    def sign_out_request(
        self, to: str, *, session_indexes: tuple[str, ...] = (), at: float = 0, sign: bool = True
    ) -> str:
        """The address, with its query, to which the provider sends a browser."""
        indexes = "".join(f"<samlp:SessionIndex>{one}</samlp:SessionIndex>" for one in session_indexes)
        xml = f"""<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="{SAML}"
          ID="_{secrets.token_hex(8)}" Version="2.0" IssueInstant="{_stamp(at)}" Destination="{to}">
          <saml:Issuer>{self.entity_id}</saml:Issuer><saml:NameID>{self.name_id}</saml:NameID>{indexes}
          </samlp:LogoutRequest>"""
        return self.redirect(to, "SAMLRequest", xml, sign=sign)

    def sign_out_answer(self, to: str, request_id: str, *, status: str = "Success") -> str:
        xml = f"""<samlp:LogoutResponse xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="{SAML}"
          ID="_{secrets.token_hex(8)}" Version="2.0" IssueInstant="{_stamp(0)}" Destination="{to}"
          InResponseTo="{request_id}"><saml:Issuer>{self.entity_id}</saml:Issuer><samlp:Status>
          <samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:{status}"/></samlp:Status>
          </samlp:LogoutResponse>"""
        return self.redirect(to, "SAMLResponse", xml)

    def redirect(self, to: str, kind: str, xml: str, *, sign: bool = True) -> str:
        """SAML 2.0 Bindings, 3.4.4.1."""
        deflated = zlib.compress(xml.encode())[2:-4]
        query = urlencode({kind: base64.b64encode(deflated).decode()})
        if sign:
            query += "&" + urlencode({"SigAlg": "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"})
            signature = self.key.sign(query.encode(), padding.PKCS1v15(), hashes.SHA256())
            query += "&" + urlencode({"Signature": base64.b64encode(signature).decode()})
        return f"{to}?{query}"


def message(location: str, kind: str) -> "etree._Element":
    """Return the message that an address carries."""
    sent = parse_qs(urlsplit(location).query)[kind][0]
    return etree.fromstring(zlib.decompress(base64.b64decode(sent), -15))


def is_signed_by(location: str, certificate: str) -> bool:
    """Whether the query of an address is signed with the certificate's key."""
    sent = dict(part.split("=", 1) for part in urlsplit(location).query.split("&"))
    signature = base64.b64decode(unquote(sent.pop("Signature", "")))
    order = ("SAMLRequest", "SAMLResponse", "RelayState", "SigAlg")
    signed = "&".join(f"{name}={sent[name]}" for name in order if name in sent)
    public = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    assert isinstance(public, RSAPublicKey)
    try:
        public.verify(signature, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True
