"""Requests to a hub and to where it redirects, with its faults as a hub's."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import httpx2

from common.outbound import client, faults
from common.outbound.addresses import Address, is_public, true_address
from hubs.backends.base import AddressForbidden, HubMisbehaves, HubUnreachable, NameUnresolved


class HubConnection:
    """`trusted_hosts` (`name:port`) may lie in private networks: the operator named them.

    Every method raises HubUnreachable, AddressForbidden, HubMisbehaves; see `OutboundClient`.
    """

    def __init__(self, *, trusted_hosts: Collection[str]) -> None:
        self._trusted_hosts = frozenset(trusted_hosts)
        self._client = client.OutboundClient(self.judge)

    def judge(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """Raises AddressForbidden."""
        if f"{host}:{port}" in self._trusted_hosts:
            return
        if not all(is_public(true_address(address)) for address in addresses):
            raise AddressForbidden(
                f"{host}:{port} lies in a private network, and this server talks to such hosts only when its "
                "operator names them, each with its port, in SLIPWAY_HUB_ENDPOINTS, for exports in "
                "SLIPWAY_EXPORT_ENDPOINTS."
            )

    @contextmanager
    def get(
        self, url: str, *, secret_headers: Mapping[str, str], headers: Mapping[str, str]
    ) -> Iterator[list[httpx2.Response]]:
        with (
            _as_a_hubs(),
            self._client.get(url, secret_headers=secret_headers, headers=headers) as answers,
        ):
            yield answers

    def send(
        self,
        method: str,
        url: str,
        *,
        secret_headers: Mapping[str, str],
        headers: Mapping[str, str],
        content: bytes | Iterator[bytes] = b"",
        limit_bytes: int,
    ) -> tuple[httpx2.Response, bytes]:
        with _as_a_hubs():
            return self._client.send(
                method,
                url,
                secret_headers=secret_headers,
                headers=headers,
                content=content,
                limit_bytes=limit_bytes,
            )


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what a secret may be sent to. Raises HubMisbehaves."""
    with _as_a_hubs():
        return client.origin_of(url)


@contextmanager
def _as_a_hubs() -> Iterator[None]:
    try:
        yield
    except faults.Unresolved as error:
        raise NameUnresolved(str(error)) from error
    except faults.HostUnreachable as error:
        raise HubUnreachable(str(error)) from error
    except faults.Misbehaves as error:
        raise HubMisbehaves(str(error)) from error
    except faults.Forbidden as error:
        raise AddressForbidden(str(error)) from error
