from typing import Protocol

from common.actor import Actor


class SignedOut(Exception):
    """Nobody is behind these credentials: no session, or it has ended."""


class RightGone(Exception):
    """Somebody is, but may no longer do anything: deactivated, or the token was revoked or has expired."""


class SocketCredentials(Protocol):
    """Credentials of an open socket. `controlplane.sockets` makes them; asked again every few seconds."""

    ambient: bool
    """A browser sends them by itself (a cookie), so that the page's origin must be checked."""

    def actor(self) -> Actor:
        """Who it is, and with which rights, at this moment. Queries; raises SignedOut or RightGone."""
