"""The parts of Envoy's v3 API that we write, as types: a misspelt field is an error of the type checker.

Field meanings: the `.proto` files under `api/envoy/` of Envoy 1.40. Durations are text such as `"1.5s"`.
"""

from typing import Any, Literal, TypedDict

TYPE_URL = "type.googleapis.com/"

Typed = dict[str, Any]
"""A message with its `@type`; made by `typed` alone."""


def typed(message: str, body: object) -> Typed:
    if not isinstance(body, dict):
        raise TypeError(f"{message} is written as an object, not as {type(body).__name__}.")
    return {"@type": TYPE_URL + message, **body}


class Extension(TypedDict):
    name: str
    typed_config: Typed


def extension(name: str, message: str, body: object = None) -> Extension:
    return {"name": name, "typed_config": typed(message, body or {})}


class SocketAddress(TypedDict):
    address: str
    port_value: int


class EnvoyAddress(TypedDict):
    socket_address: SocketAddress


class WatchedDirectory(TypedDict):
    path: str


class PathConfigSource(TypedDict):
    path: str
    watched_directory: WatchedDirectory


class ConfigSource(TypedDict):
    path_config_source: PathConfigSource
    resource_api_version: Literal["V3"]


class DiscoveryResponse(TypedDict):
    """A file of resources."""

    version_info: str
    resources: list[Typed]


class Regex(TypedDict):
    regex: str


class StringMatcher(TypedDict, total=False):
    exact: str
    safe_regex: Regex
    prefix: str
