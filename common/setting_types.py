"""Kinds of values that settings have: how each is written, and what is refused with a sentence."""

import ipaddress
import re
import shlex
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from common.audit_places import checked
from common.database.url import SCHEMES, settings_of
from common.live.sentinel import SCHEME as SENTINEL
from common.live.sentinel import Sentinels

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")
_BUCKET_URL = re.compile(
    r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>[\w./-]*))?", re.ASCII
)
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[\w-]+(\.fifo)?")


class SecretPart(Enum):
    """Part of a setting that is a secret; a kind of setting without this mark holds none."""

    ALL = "all"
    PASSWORD = "password"  # noqa: S105
    """That of the URL."""


def days(default: int, what: str) -> Any:
    """Return the setting for how many days something is kept."""
    return Field(default, ge=0, le=3_650, description=f"Days that {what} 0: for good.")


def url(text: str, *schemes: str) -> str:
    """The URL, or ValueError when it is not empty and not of one of the schemes with a host or a path."""
    if not text:
        return text
    parts = urlsplit(text)
    if parts.scheme not in schemes:
        raise ValueError(f"must start with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    if not (parts.hostname or parts.path.strip("/")):
        raise ValueError("names no host")
    if parts.port == 0:  # reading .port is itself the check: it raises for what is no port
        raise ValueError("has port 0")
    return text


def _web_address(text: str) -> str:
    return url(text.rstrip("/"), "http", "https")


def _metadata_source(text: str) -> str:
    if not text or Path(text).is_absolute():
        return text
    try:
        return url(text, "http", "https")
    except ValueError:
        raise ValueError("must be an absolute path, or start with https://") from None


def _web_addresses(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_web_address(text) for text in texts)


def _split(value: Any, separator: str) -> Any:
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(separator) if part.strip())


def _words(value: Any) -> Any:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _absolute(path: str) -> str:
    if path and not Path(path).is_absolute():
        raise ValueError(f"{path} is not an absolute path")
    return path


def _absolutes(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    for path in paths:
        _absolute(str(path))
    return paths


def _hosts_or_networks(entries: tuple[str, ...]) -> tuple[str, ...]:
    if not entries:
        return entries
    # Imports the HTTP client, which the launcher does not need.
    from common.webhooks.destination import AllowedHosts

    AllowedHosts.of(entries)
    return entries


def _networks(entries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        str(ipaddress.ip_network(entry)) if "/" in entry else str(ipaddress.ip_address(entry))
        for entry in entries
    )


def _topics(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        topic, equals, account = entry.partition("=")
        if not (_TOPIC.fullmatch(topic) and equals and account):
            raise ValueError(f"{entry} is not of the form arn:aws:sns:REGION:ACCOUNT:TOPIC=USERNAME")
    return entries


def _port_range(ports: str) -> str:
    first, dash, last = ports.partition("-")
    if not dash or not (first.isdecimal() and last.isdecimal()) or not 1 <= int(first) <= int(last) <= 65535:
        raise ValueError("must be first-last, both between 1 and 65535")
    return ports


def _secret(secret: str) -> str:
    if secret and len(secret) < 32:
        raise ValueError("must have at least 32 characters")
    return secret


def _host(name: str) -> str:
    if name and not _HOST_NAME.fullmatch(name):
        raise ValueError("must be 1 to 63 letters, digits, dots, hyphens and underscores")
    return name


def _store(text: str) -> str:
    if not text or text.startswith("/"):
        return str(Path(text)) if text else text
    found = _BUCKET_URL.fullmatch(text)
    if found is None:
        raise ValueError(
            "must be s3://bucket or s3://bucket/prefix, of letters, digits and ._-/, or an absolute path"
        )
    if find_spec("boto3") is None:
        raise ValueError("needs boto3: install slipway[s3]")
    prefix = (found["prefix"] or "").strip("/")
    return f"s3://{found['bucket']}/{prefix}/" if prefix else f"s3://{found['bucket']}/"


def _database(text: str) -> str:
    if text.startswith("sqlite:") or urlsplit(text).scheme not in SCHEMES:
        return url(text, *SCHEMES)
    settings_of(text)
    return text


def _redis(text: str) -> str:
    return text if Sentinels.of(text) else url(text, "redis", "rediss", "unix", SENTINEL)


Commas = Annotated[tuple[str, ...], NoDecode, BeforeValidator(lambda value: _split(value, ","))]
Directories = Annotated[
    tuple[Path, ...], NoDecode, BeforeValidator(lambda value: _split(value, ":")), AfterValidator(_absolutes)
]
WebAddress = Annotated[str, AfterValidator(_web_address), SecretPart.PASSWORD]
MetadataSource = Annotated[str, AfterValidator(_metadata_source), SecretPart.PASSWORD]
WebAddresses = Annotated[Commas, AfterValidator(_web_addresses), SecretPart.PASSWORD]
AuditOutputs = Annotated[Commas, AfterValidator(lambda places: tuple(checked(place) for place in places))]
HostsOrNetworks = Annotated[Commas, AfterValidator(_hosts_or_networks)]
Networks = Annotated[Commas, AfterValidator(_networks)]
IpAddress = Annotated[str, AfterValidator(lambda address: str(ipaddress.ip_address(address)))]
PortRange = Annotated[str, AfterValidator(_port_range)]
Topics = Annotated[Commas, AfterValidator(_topics)]
File = Annotated[str, AfterValidator(_absolute)]
Command = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
Secret = Annotated[str, AfterValidator(_secret), SecretPart.ALL]
Secrets = Annotated[Commas, SecretPart.ALL]
ClientSecret = Annotated[str, SecretPart.ALL]
StoreAddress = Annotated[str, AfterValidator(_store)]
HostName = Annotated[str, AfterValidator(_host)]
DatabaseUrl = Annotated[str, AfterValidator(_database), SecretPart.PASSWORD]
RedisUrl = Annotated[str, AfterValidator(_redis), SecretPart.PASSWORD]
