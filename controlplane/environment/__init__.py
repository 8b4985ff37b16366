"""Every setting of the process: its type, its default and its meaning. Read by `controlplane.env`.

`docs/SETTINGS.md` is generated from this package (`manage.py settings_reference`).
"""

import ipaddress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, ValidationInfo, create_model, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from common.setting_types import (
    AuditOutputs,
    Commas,
    DatabaseUrl,
    File,
    HostName,
    HostsOrNetworks,
    IpAddress,
    Networks,
    PortRange,
    RedisUrl,
    Secret,
    Secrets,
    WebAddress,
    WebAddresses,
)
from controlplane.environment.kept import RetentionSettings
from controlplane.environment.model_files import ModelFileSettings
from controlplane.environment.sample_cluster import SampleClusterSettings
from controlplane.environment.sign_on import SignOnSettings
from controlplane.installed import offered

PROJECT = Path(__file__).resolve().parents[2]
ENV_FILE = PROJECT / ".env"
VERSION = "0.2.0"
LONGEST_SOCKET_PATH = 107
"""Bytes that the kernel allows in the path of a unix socket, without the closing zero: unix(7)."""
LONGEST_SOCKET_NAME = "run/control.sock.1234567"


APP_SETTINGS = tuple(import_module(module).Settings for module in reversed(tuple(offered("settings"))))
"""Settings that apps declare, a class each; Django has each as `SLIPWAY_` and its name. A module of settings
imports nothing of its app: it is read before apps are loaded."""
if TYPE_CHECKING:
    _OfApps = BaseSettings
else:
    _OfApps = create_model("_OfApps", __base__=APP_SETTINGS)


class Environment(ModelFileSettings, SignOnSettings, RetentionSettings, SampleClusterSettings, _OfApps):
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
    drain_seconds: int = Field(
        0,
        ge=0,
        le=600,
        description="Seconds that a stopping web server still accepts connections while `/readyz` returns "
        "503: longer than its proxy needs to notice it, or to send requests to the other server again.",
    )
    gateway_port: int = Field(8080, ge=1, le=65535, description="Port of the gateway: model traffic.")
    gateway_admin_port: int = Field(
        8081, ge=1, le=65535, description="Port of Envoy's admin endpoint, on the loopback address only."
    )
    worker_ports: PortRange = Field(
        "21000-21999",
        description="Range of loopback ports, `first-last`, from which embedded model workers get theirs.",
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
    backup_max_age_hours: int = Field(
        0,
        ge=0,
        le=8_760,
        description="Hours after which the last backup by `slipway-server backup` is too old: Home and "
        "`/readyz` say so, and the alert SlipwayBackupOld. 0: never.",
    )
    database_url: DatabaseUrl = Field(
        "",
        description="Database as a URL (`postgresql://user:password@host/name`, with several hosts and "
        "options as libpq has them). Required in production. "
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
        description="Redis as a URL (`redis://...`, `unix:///path`, or of Sentinels "
        "`sentinel://:password@one:26379,two:26379/0?master=NAME`). Required in production. "
        "Empty: the bundled Valkey in the home.",
    )
    jobs_url: RedisUrl = Field(
        "",
        description="Redis in which jobs of services wait, as model workers reach it (a URL as of "
        "SLIPWAY_REDIS_URL; it should keep an append-only file). Empty: the same as SLIPWAY_REDIS_URL.",
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
    audit_outputs: AuditOutputs = Field(
        (),
        description="Comma-separated outputs to which every entry of the audit log is sent as well: "
        "`syslog+tls://host:6514`, `syslog+tcp://`, `syslog+udp://`, `syslog+unix:///dev/log`, "
        "`unix:///socket`, `file:///path`. Applied by `slipway-server prepare`.",
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
        False,
        description="The console is reached over HTTPS: secure cookies, HSTS, redirects. Needs "
        "SLIPWAY_TRUSTED_PROXIES.",
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
    cluster_allowed_networks: Networks = Field(
        (),
        description="Comma-separated networks or addresses where API servers of clusters, and the Prometheus "
        "that counts their traffic, may be although only this machine reaches them: loopback, link-local and "
        "metadata addresses, which are refused otherwise. `bin/up` allows loopback addresses in any case.",
    )
    ca_file: File = Field(
        "",
        description="PEM file with certificate authorities that are trusted beside the system's: for the "
        "identity provider, hubs, webhooks, the store's bucket, registries and clusters. Absolute path.",
    )
    webhook_allowed_hosts: HostsOrNetworks = Field(
        (),
        description="Comma-separated host names (`hooks.internal`, `*.internal`) and networks (`10.0.0.0/8`) "
        "that webhooks may go to though they are not public, and without HTTPS.",
    )

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

    @field_validator("trusted_proxies")
    @classmethod
    def _who_ends_tls(cls, proxies: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.data.get("https") and not proxies:
            raise ValueError(
                "must name who ends TLS while SLIPWAY_HTTPS is on: nobody else is believed that a request "
                "came over it, and every page would lead to itself"
            )
        return proxies

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

    def of_apps(self) -> dict[str, Any]:
        """Return the settings that apps declare, by their names in Django's settings."""
        return {variable(name): getattr(self, name) for of in APP_SETTINGS for name in of.model_fields}

    @property
    def store_directory(self) -> Path:
        """Return the directory of all files of models, or of those of a bucket that this host keeps."""
        return Path(self.store) if self.store_is_shared_directory else self.home / "models"

    @property
    def worker_port_range(self) -> tuple[int, int]:
        first, last = (int(part) for part in self.worker_ports.split("-"))
        return first, last

    def local_url(self, port: int) -> str:
        """Return a browser's URL of `port` on this machine: the bind address, or loopback for a wildcard."""
        address = ipaddress.ip_address(self.bind)
        if address.is_unspecified:
            address = ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")
        return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"


def variable(field: str) -> str:
    return f"SLIPWAY_{field.upper()}"
