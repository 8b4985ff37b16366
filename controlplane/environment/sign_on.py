"""Settings of who gets in: single sign-on, passwords, tokens of CI jobs."""

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from common.outbound.addresses import is_http_of_this_machine
from common.setting_types import ClientSecret, Commas, File, MetadataSource, WebAddress, WebAddresses


class SignOnSettings(BaseSettings):
    """Signing in"""

    loopback_providers: bool = Field(
        False,
        description="Whether an identity provider on this machine (`127.0.0.1`) may be asked over http: for "
        "trials and tests. Everywhere else a provider's addresses must be https.",
    )
    oidc_name: str = Field("", description="Label of the single sign-on button.")
    oidc_server_url: WebAddress = Field("", description="OpenID Connect issuer. Empty: passwords only.")
    oidc_client_id: str = Field("", description="OpenID Connect client id.")
    oidc_client_secret: ClientSecret = Field("", description="OpenID Connect client secret.")
    oidc_scopes: Commas = Field(
        ("openid", "profile", "email", "offline_access"),
        description="Comma-separated scopes that are asked for. `offline_access` lets Slipway notice when "
        "the provider drops a person; take it out where the provider refuses it.",
    )
    oidc_groups_claim: str = Field(
        "groups",
        description="Claim that lists a person's groups; dots lead into objects (`realm_access.roles`).",
    )
    saml_metadata: MetadataSource = Field(
        "",
        description="Single sign-on by SAML 2.0 in place of OpenID Connect: the metadata of the identity "
        "provider, an absolute path or an https address.",
    )
    saml_entity_id: str = Field(
        "", description="Which provider of SLIPWAY_SAML_METADATA, where it lists several."
    )
    saml_name: str = Field("", description="Label of the single sign-on button, with SAML.")
    saml_groups_attribute: str = Field("groups", description="SAML attribute that lists a person's groups.")
    saml_key: File = Field(
        "",
        description="Absolute path of a file with Slipway's own private key for SAML, RSA as PEM. With it "
        "requests are signed, encrypted assertions are read, and signing out ends the provider's session.",
    )
    saml_certificate: File = Field(
        "", description="Absolute path of the certificate of SLIPWAY_SAML_KEY, as PEM; our metadata shows it."
    )
    saml_second_key: File = Field(
        "",
        description="While keys are exchanged: a second private key, with which encrypted assertions are "
        "read, too. It signs nothing.",
    )
    saml_second_certificate: File = Field(
        "", description="The certificate of SLIPWAY_SAML_SECOND_KEY; our metadata shows both."
    )
    saml_require_encryption: bool = Field(
        False, description="Whether an assertion that is not encrypted is refused. Needs SLIPWAY_SAML_KEY."
    )
    oidc_check_minutes: int = Field(
        15,
        ge=1,
        le=1_440,
        description="Minutes between two checks that the provider still accepts a person who has signed in: "
        "their refresh token is used. Refused: sessions end, tokens are refused.",
    )
    scim_link: str = Field(
        "externalId=sub",
        description="By which SCIM attribute and which claim a person who was provisioned is known at the "
        "first sign-in: `externalId=sub` (Okta), `externalId=oid` (Entra), `userName=preferred_username`. "
        "The claim must be one that people cannot change.",
    )
    password_login: bool = Field(
        True,
        description="Whether people sign in by password. Off: by single sign-on only, but for "
        "SLIPWAY_BREAK_GLASS_ACCOUNT.",
    )
    break_glass_account: str = Field(
        "",
        description="Username that may sign in by password while SLIPWAY_PASSWORD_LOGIN is off, for when the "
        "provider is down. Each of its sign-ins is in the audit log and sent as `session.break_glass`.",
    )
    ci_issuers: WebAddresses = Field(
        ("https://token.actions.githubusercontent.com", "https://gitlab.com"),
        description="Comma-separated issuers of OpenID Connect tokens that service accounts may accept "
        "instead of a stored token. Those named here may lie in private networks. Empty: none.",
    )
    lockout_after: int = Field(
        10, ge=1, description="Failed logins of one name from one address until a lockout."
    )
    lockout_after_address: int = Field(
        30,
        ge=1,
        description="Failed logins from one address, under whatever names, until only browsers that have "
        "signed in before may try there.",
    )
    lockout_after_all: int = Field(
        300,
        ge=1,
        description="Failed logins from all addresses together until only browsers and addresses that have "
        "signed in before may try.",
    )
    lockout_minutes: int = Field(15, ge=1, description="Minutes that a lockout lasts.")

    @field_validator("oidc_server_url", "saml_metadata", "ci_issuers")
    @classmethod
    def _encrypted(cls, value: str | tuple[str, ...], info: ValidationInfo) -> str | tuple[str, ...]:
        for address in (value,) if isinstance(value, str) else value:
            is_local = info.data.get("loopback_providers") and is_http_of_this_machine(address)
            if address.startswith("http://") and not is_local:
                raise ValueError("must start with https://: over http anybody could sign in as anybody")
        return value

    @field_validator("oidc_scopes")
    @classmethod
    def _asks_for_openid(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("must name openid")
        return scopes

    @field_validator("saml_metadata")
    @classmethod
    def _one_provider(cls, source: str, info: ValidationInfo) -> str:
        if source and info.data.get("oidc_server_url"):
            raise ValueError("must be empty while SLIPWAY_OIDC_SERVER_URL is set: there is one provider")
        return source

    @field_validator("saml_certificate")
    @classmethod
    def _with_its_key(cls, path: str, info: ValidationInfo) -> str:
        if bool(path) != bool(info.data.get("saml_key")):
            raise ValueError("must be set if and only if SLIPWAY_SAML_KEY is")
        return path

    @field_validator("saml_second_key")
    @classmethod
    def _beside_a_first(cls, path: str, info: ValidationInfo) -> str:
        if path and not info.data.get("saml_key"):
            raise ValueError("is a second one: set SLIPWAY_SAML_KEY")
        return path

    @field_validator("saml_second_certificate")
    @classmethod
    def _with_its_second_key(cls, path: str, info: ValidationInfo) -> str:
        if bool(path) != bool(info.data.get("saml_second_key")):
            raise ValueError("must be set if and only if SLIPWAY_SAML_SECOND_KEY is")
        return path

    @field_validator("saml_require_encryption")
    @classmethod
    def _with_a_key(cls, is_on: bool, info: ValidationInfo) -> bool:
        if is_on and not info.data.get("saml_key"):
            raise ValueError("needs SLIPWAY_SAML_KEY and SLIPWAY_SAML_CERTIFICATE")
        return is_on

    @field_validator("scim_link")
    @classmethod
    def _attribute_and_claim(cls, link: str) -> str:
        attribute, _, claim = link.partition("=")
        if attribute not in ("externalId", "userName") or not claim.strip():
            raise ValueError("must be externalId=CLAIM or userName=CLAIM")
        return link

    @field_validator("password_login")
    @classmethod
    def _another_way_in(cls, is_on: bool, info: ValidationInfo) -> bool:
        if not is_on and not (info.data.get("oidc_server_url") or info.data.get("saml_metadata")):
            raise ValueError(
                "must stay on while there is no single sign-on: set SLIPWAY_OIDC_SERVER_URL or "
                "SLIPWAY_SAML_METADATA"
            )
        return is_on
