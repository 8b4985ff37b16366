"""Every setting of the process: its type, its default and its meaning. Read by `controlplane.env`.

`docs/SETTINGS.md` is generated from this module (`manage.py settings_reference`).
"""

import ipaddress
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from controlplane.setting_types import (
    ClientSecret,
    Command,
    Commas,
    DatabaseUrl,
    Directories,
    File,
    HostName,
    HostsOrNetworks,
    IpAddress,
    MetadataSource,
    Networks,
    PortRange,
    RedisUrl,
    Secret,
    Secrets,
    StoreAddress,
    WebAddress,
    WebAddresses,
    days,
)

PROJECT = Path(__file__).resolve().parent.parent
ENV_FILE = PROJECT / ".env"
VERSION = "0.1.0"
LONGEST_SOCKET_PATH = 107
"""Bytes that the kernel allows in the path of a unix socket, without the closing zero: unix(7)."""
LONGEST_SOCKET_NAME = "run/control.sock.1234567"


class Environment(BaseSettings):
    """`SLIPWAY_*` variables, or the same names in a `.env` file beside `manage.py`."""

    model_config = SettingsConfigDict(
        env_prefix="SLIPWAY_", env_file=ENV_FILE, env_file_encoding="utf-8", extra="ignore", frozen=True
    )

    home: Path = Field(
        Path("var"), description="Directory that holds every file the system writes. Relative to the project."
    )
    host: HostName = Field(
        "",
        description="Name of this host among all that share the database: what needs files of its home is "
        "done here alone. Empty: one that the home keeps, in the file `host`.",
    )
    bind: IpAddress = Field("127.0.0.1", description="IP address that the console and the gateway listen on.")
    port: int = Field(
        8000, ge=1, le=65535, description="Port of the console, the REST API and the websockets."
    )
    gateway_port: int = Field(8080, ge=1, le=65535, description="Port of the gateway: model traffic.")
    gateway_admin_port: int = Field(
        8081, ge=1, le=65535, description="Port of Envoy's admin endpoint, on the loopback address only."
    )
    worker_ports: PortRange = Field(
        "21000-21999",
        description="Range of loopback ports, `first-last`, from which embedded model workers get theirs.",
    )
    import_roots: Directories = Field(
        (),
        description="Colon-separated absolute directories that model imports may read, besides the home's "
        "`imports`.",
    )
    hub_endpoints: WebAddresses = Field(
        ("https://huggingface.co",),
        description="Comma-separated addresses of the model hubs that syncs may read; the first is the "
        "default. Those named here may lie in private networks; what they redirect to may not.",
    )
    export_endpoints: WebAddresses = Field(
        (),
        description="Comma-separated addresses of the Hugging Face hubs and other Slipways to which versions "
        "may be exported; the first is the default. Empty: nothing leaves this server. Those named here may "
        "lie in private networks; storage to which they lead files only when it is named, too.",
    )
    store: StoreAddress = Field(
        "",
        description="Where the files of models lie: `s3://bucket/prefix`, or an absolute directory; several "
        "hosts must share it, see docs/STORE.md. Empty: the directory `models` in the home.",
    )
    store_endpoint: WebAddress = Field("", description="Address of the bucket's server. Empty: Amazon S3.")
    store_region: str = Field("", description="Region of the bucket. Empty: AWS_DEFAULT_REGION.")
    store_path_style: bool = Field(
        False, description="Address the bucket by path, not by host name: most servers of one's own want it."
    )
    store_cache_gib: int = Field(
        0,
        ge=0,
        description="GiB of a bucket's files that each node keeps; what it serves stays anyway. 0: no limit.",
    )
    store_grace_hours: int = Field(
        24,
        ge=0,
        le=8_760,
        description="Hours that a file which no model version needs any more stays in the model store.",
    )
    disk_reserve_mib: int = Field(
        256,
        ge=8,
        le=65_536,
        description="MiB of the home's disk that are kept for what must still be written when it is full, "
        "such as a rollback; at most one 20th of the disk.",
    )
    disk_warn_percent: int = Field(
        10, ge=0, le=90, description="Below this percentage of free space every page warns. 0: never."
    )
    store_check_days: int = Field(
        30, ge=0, le=365, description="Days between two checks that read the whole model store. 0: never."
    )
    store_quarantine_days: int = Field(
        30,
        ge=0,
        le=3_650,
        description="Days that a damaged file is kept aside, for people to look at; longer while no whole "
        "one has taken its place. 0: for good.",
    )
    store_check_mib_per_second: int = Field(
        100, ge=1, description="MiB per second at which such a check reads at most."
    )
    signing_key: File = Field(
        "",
        description="PEM file with the private key (elliptic curve, P-256, P-384 or P-521, no password) that "
        "signs every version that is imported. Empty: nothing is signed, or a command does it.",
    )
    signing_command: Command = Field(
        (),
        description="Command that signs instead, for keys in a KMS: it gets the bytes to sign on standard "
        "input and answers with an ECDSA signature over their SHA-256 (P-256), SHA-384 (P-384) or SHA-512 "
        "(P-521), in DER or base64, within 8 s. No shell runs it.",
    )
    signing_public_key: File = Field(
        "",
        validate_default=True,
        description="PEM file with the public key of SLIPWAY_SIGNING_COMMAND. Required with it.",
    )
    database_url: DatabaseUrl = Field(
        "",
        description="Database as a URL (`postgresql://user:password@host/name`). Required in production. "
        "Empty: SQLite in the home.",
    )
    database_connections: int = Field(
        24,
        ge=12,
        le=1_000,
        description="Connections to PostgreSQL that one process keeps at most; docs/PRODUCTION.md says how "
        "many processes there are.",
    )
    redis_url: RedisUrl = Field(
        "",
        description="Redis as a URL (`redis://...`, `unix:///path`). Required in production. "
        "Empty: the bundled Valkey in the home.",
    )
    secret_key: Secret = Field(
        "",
        description="Secret of at least 32 characters that signs sessions. Required in production; "
        "the embedded stack makes one in its home.",
    )
    secret_key_fallbacks: Secrets = Field(
        (),
        description="Comma-separated former values of SLIPWAY_SECRET_KEY: sessions and stored secrets of "
        "then still open. Take a value out once `slipway-server reseal` has sealed them with the new one.",
    )
    audit_key: Secret = Field(
        "",
        description="Secret of at least 32 characters that signs the audit record; keep it out of the "
        "database and its backups. Required in production; the embedded stack makes one in its home.",
    )
    audit_key_fallbacks: Secrets = Field(
        (),
        description="Comma-separated former values of SLIPWAY_AUDIT_KEY: what they signed still counts.",
    )
    audit_export_seconds: int = Field(
        60,
        ge=1,
        le=86_400,
        description="Seconds between two exports of the audit record's head: to `audit/heads.jsonl` in the "
        "home, the log and the webhook event `audit.head`.",
    )
    allowed_hosts: Commas = Field(
        ("127.0.0.1", "localhost"), description="Comma-separated host names that the console answers to."
    )
    public_url: WebAddress = Field(
        "",
        description="Address under which people reach the console (`https://slipway.example.org`); links and "
        "origin checks use it. Empty: the bind address and port.",
    )
    report_url: WebAddresses = Field(
        (),
        description="Comma-separated addresses of the console to which this machine's agent reports: those "
        "of webs, or of the proxy; while one does not answer, the next is told. Empty: the web of this "
        "machine.",
    )
    gateway_url: WebAddress = Field(
        "",
        description="Address under which clients reach the gateway. Empty: its bind address and port.",
    )
    client_header_seconds: int = Field(
        15,
        ge=1,
        le=600,
        description="Seconds within which a client of the console or of the gateway must have sent the whole "
        "header of a request; it is disconnected then.",
    )
    client_idle_seconds: int = Field(
        60,
        ge=1,
        le=3_600,
        description="Seconds after which a connection is closed on which nothing moves: one to the gateway "
        "without a request, one to the console with a request's body half sent or an answer not taken. "
        "However long an answer takes, nobody is disconnected for it.",
    )
    release_header: Literal["", "off", "open"] = Field(
        "",
        description="Whether clients of a new service may choose the version with the header `x-release` "
        "while a release runs: off or open; each service can be set otherwise. Empty: open in the embedded "
        "stack, off in production.",
    )
    https: bool = Field(
        False, description="The console is reached over HTTPS: secure cookies, HSTS, redirects."
    )
    trusted_proxies: Networks = Field(
        (),
        description="Comma-separated addresses and networks (`10.0.0.0/8`) of the proxies in front of the "
        "console: whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. Empty: nobody's.",
    )
    metrics: Literal["", "open", "token", "off"] = Field(
        "",
        description="Who may read `/metrics`: everybody (open), who sends a token with the right `read` "
        "(token), or nobody (off). Empty: open in the embedded stack, token in production.",
    )
    api_schema: Literal["", "open", "token", "off"] = Field(
        "",
        description="Who may read the schema of the REST API and its pages: everybody (open), who is signed "
        "in or sends a token (token), or nobody (off). Empty: open in the embedded stack, token in "
        "production.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Lowest level that is logged: DEBUG, INFO, WARNING or ERROR."
    )
    log_format: Literal["text", "json"] = Field(
        "text",
        description="How lines are logged: as text, or as JSON with an object per line (json); "
        "docs/PRODUCTION.md names what it holds.",
    )
    access_log: Literal["", "on", "off"] = Field(
        "",
        description="Whether the web logs a line for every request: on or off; probes and reports of "
        "machines leave none. Empty: off in the embedded stack, on in production.",
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
    webhook_allowed_hosts: HostsOrNetworks = Field(
        (),
        description="Comma-separated host names (`hooks.internal`, `*.internal`) and networks (`10.0.0.0/8`) "
        "that webhooks may go to though they are not public, and without HTTPS.",
    )
    lockout_after: int = Field(
        10, ge=1, description="Failed logins of one name from one address until a lockout."
    )
    lockout_minutes: int = Field(15, ge=1, description="Minutes that a lockout lasts.")
    keep_intents_days: int = days(
        30, "the journal keeps a finished step; those under way and in doubt stay as long as they are so."
    )
    keep_answers_days: int = days(
        1, "the answer to a request with an `Idempotency-Key` is kept, and repeated to who sends it again."
    )
    keep_webhooks_days: int = days(
        30, "a webhook event is kept with what its receivers answered; longer while it is on its way."
    )
    keep_sessions_days: int = days(1, "an expired session is kept.")
    keep_sign_ins_days: int = days(
        90, "sign-ins, and failed ones, are kept where lockouts count them; the audit record keeps its own."
    )
    keep_uploads_days: int = days(30, "an upload that made no version is listed after its end.")
    keep_syncs_days: int = days(
        90, "a hub sync is listed after its end; the last of a source and of a version stays."
    )
    keep_exports_days: int = days(
        365, "an export is listed after its end; the last successful one to a destination stays."
    )
    keep_store_runs_days: int = days(
        365, "checks and collections of the model store, and what checks found, are listed after their end."
    )
    keep_evidence_days: int = days(365, "the points of a release's evidence chart are kept after its end.")

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

    @field_validator("signing_command")
    @classmethod
    def _one_signer(cls, command: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if command and info.data.get("signing_key"):
            raise ValueError("must be empty while SLIPWAY_SIGNING_KEY is set")
        return command

    @field_validator("signing_public_key")
    @classmethod
    def _key_of_command(cls, path: str, info: ValidationInfo) -> str:
        if info.data.get("signing_command") and not path:
            raise ValueError("must be set while SLIPWAY_SIGNING_COMMAND is")
        return path

    @field_validator("home")
    @classmethod
    def _anchor_home(cls, home: Path) -> Path:
        try:
            home = (PROJECT / home.expanduser()).resolve()
        except (RuntimeError, OSError) as error:
            raise ValueError(str(error)) from None
        if odd := set(str(home)) & set("*?[]%;#'\"\\\n\t"):
            raise ValueError(f"must not contain {' '.join(sorted(odd))}")
        if (length := len(bytes(home / LONGEST_SOCKET_NAME))) > LONGEST_SOCKET_PATH:
            raise ValueError(f"is {length - LONGEST_SOCKET_PATH} bytes too long for the unix sockets in it")
        return home

    @model_validator(mode="after")
    def _distinct_ports(self) -> Self:
        first, last = self.worker_port_range
        seen: dict[int, str] = {}
        for field in ("port", "gateway_port", "gateway_admin_port"):
            port: int = getattr(self, field)
            if port in seen:
                raise ValueError(f"{variable(field)} and {variable(seen[port])} are both {port}")
            if first <= port <= last:
                raise ValueError(f"{variable(field)} lies in the range of {variable('worker_ports')}")
            seen[port] = field
        return self

    @property
    def store_directory(self) -> Path:
        """Of all files of models, or of those of a bucket that this host keeps."""
        return Path(self.store) if self.store_is_shared_directory else self.home / "models"

    @property
    def store_is_shared_directory(self) -> bool:
        """Every host has the directory, under whatever path."""
        return self.store.startswith("/")

    @property
    def store_bucket(self) -> str:
        return "" if self.store_is_shared_directory else self.store

    @property
    def worker_port_range(self) -> tuple[int, int]:
        first, last = (int(part) for part in self.worker_ports.split("-"))
        return first, last

    def local_url(self, port: int) -> str:
        """Where a browser on this machine reaches `port`: the bind address, or loopback for a wildcard."""
        address = ipaddress.ip_address(self.bind)
        if address.is_unspecified:
            address = ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")
        return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"


def variable(field: str) -> str:
    return f"SLIPWAY_{field.upper()}"
