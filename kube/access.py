"""Access to a cluster: its address and credential, once read and checked."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from kube.errors import BadConfig

LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class TokenSource(Protocol):
    def token(self) -> str:
        """Empty: none, the certificate says who we are. Raises BadConfig, ApiUnreachable."""

    def renew(self) -> bool:
        """After it was refused: whether another one may be had."""


@dataclass(frozen=True, slots=True)
class FixedToken:
    value: str = field(repr=False)

    def token(self) -> str:
        return self.value

    def renew(self) -> bool:
        return False


class FileToken:
    """A token that somebody else renews in a file: a service account's, in a pod."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, str] = (-1, "")

    def token(self) -> str:
        try:
            changed = self._path.stat().st_mtime_ns
            if self._read[0] != changed:
                self._read = (changed, self._path.read_text().strip())
        except (OSError, UnicodeDecodeError) as error:
            raise BadConfig(f"The token in {self._path} cannot be read: {error}") from error
        return self._read[1]

    def renew(self) -> bool:
        before = self._read[1]
        self._read = (-1, before)
        return self.token() != before


@dataclass
class GeneratedToken:
    """A token that a program generates, valid for as long as it says."""

    make: "Callable[[], tuple[str, float]]"
    """A token and the time, as of `clock`, at which another one is wanted."""
    clock: Callable[[], float]
    _held: tuple[str, float] = ("", 0.0)

    def token(self) -> str:
        if self.clock() >= self._held[1]:
            self._held = self.make()
        return self._held[0]

    def renew(self) -> bool:
        before = self._held[0]
        self._held = self.make()
        return self._held[0] != before


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Raises BadConfig for what cannot be meant."""

    server: str
    """`https://host:port`; a path may follow."""
    token: TokenSource
    authority_pem: str = ""
    """Of those who may sign the server's certificate; empty: whom this machine trusts."""
    certificate_pem: str = ""
    key_pem: str = field(default="", repr=False)
    server_name: str = ""
    """That the server's certificate must have, if it is not the host's."""
    proxy: str = ""

    def __post_init__(self) -> None:
        for name, value in (
            ("server", self.server),
            ("server name", self.server_name),
            ("proxy", self.proxy),
        ):
            if any(character.isspace() or not character.isprintable() for character in value):
                raise BadConfig(f"The {name} holds a space, a line break or a hidden character.")
        address = urlsplit(self.server)
        if address.scheme not in ("https", "http") or not address.hostname or address.query:
            raise BadConfig(f"{self.server[:100]!r} is no address of a cluster: https://HOST:PORT is.")
        if address.username or address.password:
            raise BadConfig("A name or password does not belong into the address of a cluster.")
        if address.scheme == "http" and address.hostname not in LOOPBACK:
            raise BadConfig(f"{self.server[:100]} would send the credential unencrypted: use https.")
        if bool(self.certificate_pem) != bool(self.key_pem):
            raise BadConfig("A client certificate needs its key, and a key its certificate.")
