"""The filters that check and limit keys of clients, as files of their own (ECDS): a change of a key closes no
connection, as a change of the listener would. Pure.
"""

from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from gateway.backends.envoy.clusters import file_source
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.backends.envoy.messages.base import Typed, typed
from gateway.client_access import AllowedKey, ClientAccess
from gateway.errors import InvalidRoute

LUA = "envoy.extensions.filters.http.lua.v3.Lua"
LIMIT = "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"
CHECK, REQUESTS, TOKENS = "slipway-keys", "slipway-key-requests", "slipway-key-tokens"
FILTERS = {CHECK: LUA, REQUESTS: LIMIT, TOKENS: LIMIT}
"""In the order in which a request passes them."""
NAMESPACE = "slipway.client"
"""Of the dynamic metadata of a request: its `key`, its tokens, and whether it was `refused`."""
UNLIMITED = 4_000_000_000
TEXTS = {
    "MISSING": "This service answers to clients with a key alone: send it as Authorization: Bearer KEY.",
    "UNKNOWN": "This key is unknown or revoked. Ask the team of the service for another one.",
    "EXPIRED": "This key has expired. Ask the team of the service for another one.",
    "ELSEWHERE": "This key is for other services.",
}


def discovered_filters(layout: EnvoyFileLayout) -> list[Any]:
    """The entries of the listener that lead to the filters' files."""
    return [
        {
            "name": name,
            "config_discovery": {
                "config_source": file_source(str(layout.extension(name)), str(layout.extension(name).parent)),
                "type_urls": [f"type.googleapis.com/{kind}"],
            },
        }
        for name, kind in FILTERS.items()
    ]


def source_of(name: str) -> str:
    """Name of a filter's file, as Envoy counts what it has taken of it."""
    return f"extension_config_discovery.http_filter.{name}"


def filter_messages(access: ClientAccess) -> dict[str, list[Typed]]:
    """The contents of each filter's file. Raises InvalidRoute."""
    bodies = {
        CHECK: {"default_source_code": {"inline_string": _source(access)}, "clear_route_cache": False},
        REQUESTS: _limits(((key.id, key.requests_per_minute) for key in access.keys), {}),
        TOKENS: _limits(
            ((key.id, key.tokens_per_minute) for key in access.keys),
            {"hits_addend": {"format": f"%DYNAMIC_METADATA({NAMESPACE}:tokens_due)%"}},
        ),
    }
    return {
        name: [
            typed(
                "envoy.config.core.v3.TypedExtensionConfig",
                {"name": name, "typed_config": typed(FILTERS[name], body)},
            )
        ]
        for name, body in bodies.items()
    }


def _source(access: ClientAccess) -> str:
    keys = ",\n".join(_key(key) for key in sorted(access.keys, key=lambda one: one.id))
    texts = "\n".join(f"local {name} = {_text(words)}" for name, words in TEXTS.items())
    program = files(__package__).joinpath("client_keys.lua").read_text()
    return f"local KEYS = {{\n{keys}\n}}\nlocal DEMANDED = {_set(access.demanded)}\n{texts}\n{program}"


def _key(key: AllowedKey) -> str:
    parts = [f"id = {_text(key.id)}", f"services = {_set(key.services)}"]
    if key.tokens_per_minute is not None:
        parts.append(f"tokens = {key.tokens_per_minute}")
    if key.ends_at is not None:
        parts.append(f"ends = {int(key.ends_at.timestamp())}")
    return f"[{_text(key.hash)}] = {{ {', '.join(parts)} }}"


def _set(names: Iterable[str]) -> str:
    return "{ " + ", ".join(f"[{_text(name)}] = true" for name in sorted(names)) + " }"


def _text(value: str) -> str:
    """A text of Lua; refuses what could end it."""
    if not value.isprintable() or not value.isascii() or '"' in value or "\\" in value:
        raise InvalidRoute(f"{value!r} cannot be written for the gateway: use letters, digits and hyphens.")
    return f'"{value}"'


def _limits(limits: Iterable[tuple[str, int | None]], hits: dict[str, Any]) -> dict[str, Any]:
    everything = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    return {
        "stat_prefix": "slipway_keys",
        "filter_enabled": everything,
        "filter_enforced": everything,
        # Of requests without a key, or whose key has no such limit.
        "token_bucket": _bucket(UNLIMITED, seconds=1),
        "always_consume_default_token_bucket": False,
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        # Only by it the script can tell that the request was refused; it is taken off there.
        "response_headers_to_add": [
            {
                "header": {"key": "x-slipway-limited", "value": "1"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        ],
        "descriptors": [
            {
                "entries": [{"key": "key", "value": key}],
                "token_bucket": _bucket(limit, seconds=60),
            }
            for key, limit in limits
            if limit is not None
        ],
        "rate_limits": [
            {
                "actions": [
                    {
                        "metadata": {
                            "descriptor_key": "key",
                            "metadata_key": {"key": NAMESPACE, "path": [{"key": "key"}]},
                            "skip_if_absent": True,
                        }
                    }
                ],
                **hits,
            }
        ],
    }


def _bucket(size: int, *, seconds: int) -> dict[str, Any]:
    return {"max_tokens": size, "tokens_per_fill": size, "fill_interval": f"{seconds}s"}
