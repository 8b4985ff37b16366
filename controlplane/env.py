"""The only reader of the process environment: every setting, its type, its default and its meaning.

A missing or malformed variable stops the process with one line that names it; `docs/SETTINGS.md` is
generated from this module (`manage.py settings_reference`).
"""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PROJECT = Path(__file__).resolve().parent.parent


class Environment(BaseSettings):
    """`SLIPWAY_*` variables, or the same names in a `.env` file beside `manage.py`."""

    model_config = SettingsConfigDict(
        env_prefix="SLIPWAY_",
        env_file=PROJECT / ".env",
        env_file_encoding="utf-8",
        extra="ignore",
        frozen=True,
    )

    home: Path = Field(
        Path("var"), description="Directory that holds every file the system writes. Relative to the project."
    )
    bind: str = Field("127.0.0.1", description="Address that the console and the gateway listen on.")
    port: int = Field(
        8000, ge=1, le=65535, description="Port of the console, the REST API and the websockets."
    )
    gateway_port: int = Field(8080, ge=1, le=65535, description="Port of the gateway: model traffic.")
    gateway_admin_port: int = Field(
        8081, ge=1, le=65535, description="Port of Envoy's admin endpoint, on the loopback address only."
    )
    worker_ports: str = Field(
        "21000-21999",
        pattern=r"^\d+-\d+$",
        description="Range of loopback ports, `first-last`, from which embedded model workers get theirs.",
    )
    import_roots: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="Colon-separated absolute directories that model imports may read."
    )
    database_url: str = Field(
        "",
        description="Database as a URL (`postgresql://user:password@host/name`). Empty: SQLite in the home.",
    )
    redis_url: str = Field(
        "",
        description="Redis as a URL (`redis://...`, `unix:///path`). Empty: the bundled Valkey in the home.",
    )
    secret_key: str = Field(
        "",
        description="Secret of at least 32 characters that signs sessions. Required in production; "
        "the embedded stack makes one in its home.",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        ("127.0.0.1", "localhost"), description="Comma-separated host names that the console answers to."
    )
    public_url: str = Field(
        "", description="Address under which people reach the console; links and origin checks use it."
    )
    gateway_url: str = Field(
        "",
        description="Address under which clients reach the gateway. Empty: bind address and gateway port.",
    )
    https: bool = Field(
        False, description="The console is reached over HTTPS: secure cookies, HSTS, redirects."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Lowest level that is logged."
    )
    oidc_name: str = Field("", description="Label of the single sign-on button.")
    oidc_server_url: str = Field("", description="OpenID Connect issuer. Empty: passwords only.")
    oidc_client_id: str = Field("", description="OpenID Connect client id.")
    oidc_client_secret: str = Field("", description="OpenID Connect client secret.")
    lockout_after: int = Field(
        10, ge=1, description="Failed logins of one name from one address until a lockout."
    )
    lockout_minutes: int = Field(15, ge=1, description="Minutes that a lockout lasts.")

    @field_validator("import_roots", mode="before")
    @classmethod
    def _split_roots(cls, value: Any) -> Any:
        return tuple(part for part in value.split(":") if part) if isinstance(value, str) else value

    @field_validator("import_roots")
    @classmethod
    def _absolute_roots(cls, roots: tuple[Path, ...]) -> tuple[Path, ...]:
        for root in roots:
            if not root.is_absolute():
                raise ValueError(f"{root} is not an absolute path")
        return roots

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split_hosts(cls, value: Any) -> Any:
        return tuple(p.strip() for p in value.split(",") if p.strip()) if isinstance(value, str) else value

    @field_validator("home")
    @classmethod
    def _anchor_home(cls, home: Path) -> Path:
        return (PROJECT / home.expanduser()).resolve()

    @field_validator("secret_key")
    @classmethod
    def _long_secret(cls, secret: str) -> str:
        if secret and len(secret) < 32:
            raise ValueError("must have at least 32 characters")
        return secret

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, url: str) -> str:
        if url and not url.startswith(("postgresql://", "postgres://", "sqlite:///")):
            raise ValueError("must start with postgresql:// or sqlite:///")
        return url

    @field_validator("redis_url")
    @classmethod
    def _known_redis(cls, url: str) -> str:
        if url and not url.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must start with redis://, rediss:// or unix://")
        return url

    @property
    def worker_port_range(self) -> tuple[int, int]:
        first, last = (int(part) for part in self.worker_ports.split("-"))
        return first, last


def variable(field: str) -> str:
    return f"SLIPWAY_{field.upper()}"


def read() -> Environment:
    """The environment, or exit status 2 with one line per faulty variable on stderr."""
    try:
        return Environment()
    except ValidationError as error:
        for fault in error.errors():
            field = str(fault["loc"][0]) if fault["loc"] else "?"
            hint = Environment.model_fields[field].description if field in Environment.model_fields else ""
            sys.stderr.write(f"{variable(field)}: {fault['msg'].removeprefix('Value error, ')}. {hint}\n")
        raise SystemExit(2) from None


env = read()
