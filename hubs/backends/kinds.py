"""Which protocols hubs speak, by the names that people give them."""

from collections.abc import Collection, Mapping
from typing import Protocol

from hubs.backends.base import HubClient
from hubs.backends.huggingface import HuggingFace
from hubs.backends.modelscope import ModelScope


class _HubFactory(Protocol):
    def __call__(self, endpoint: str, *, token: str, trusted_hosts: Collection[str]) -> HubClient: ...


_CLIENTS: Mapping[str, _HubFactory] = {"huggingface": HuggingFace, "modelscope": ModelScope}


def hub_at(endpoint: str, *, kind: str, token: str, trusted_hosts: Collection[str]) -> HubClient:
    """The hub at an address; `kind` is a value of `states.HubKind`."""
    return _CLIENTS[kind](endpoint, token=token, trusted_hosts=trusted_hosts)
