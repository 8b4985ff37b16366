"""The documents that the schema shows for gateways."""

from typing import Any

GATEWAY: dict[str, Any] = {
    "cluster": "local",
    "kind": "envoy",
    "settings": {},
    "secrets": [],
    "metrics": "gateway",
    "public_url": "http://127.0.0.1:8080",
    "named_url": "",
    "counted_by": "Counted by the gateway",
    "not_counted": "",
    "gateway_class": "",
    "features": None,
    "lacks": "",
    "cannot": {},
    "is_healthy": True,
    "detail": "Envoy serves on 127.0.0.1 port 8080.",
    "seen_at": "2026-11-20T08:30:00Z",
    "counted_since": "2026-11-20T08:00:00Z",
}
GATEWAY_PUT = {"kind": "envoy", "settings": {"port": 8090, "admin_port": 8091}, "metrics": "gateway"}
ABILITY: dict[str, Any] = {
    "name": "cloth",
    "team": "speech",
    "cluster": "local",
    "ability": "cloth",
    "description": "",
    "state": "serving",
    "address": "http://127.0.0.1:8080/cloth/",
    "services": ["cloth-large", "cloth-small"],
    "workers": 4,
    "slots": 16,
    "problem": "",
    "created_at": "2026-11-20T08:00:00Z",
    "created_by": "ada",
}
NEW_ABILITY = {"name": "cloth", "team": "speech"}
CLIENT_KEY: dict[str, Any] = {
    "id": 7,
    "name": "shop",
    "team": "speech",
    "description": "",
    "prefix": "slk_Zr4kT9aQ",
    "state": "active",
    "services": ["chat"],
    "requests_per_minute": 600,
    "tokens_per_minute": 100000,
    "expires_at": "2027-11-20T08:00:00Z",
    "revoked_at": None,
    "created_at": "2026-11-20T08:00:00Z",
    "created_by": "ada",
}
ISSUED_CLIENT_KEY = {**CLIENT_KEY, "key": "slk_Zr4kT9aQ-the-rest-is-shown-this-once"}
NEW_CLIENT_KEY = {"name": "shop", "team": "speech", "services": ["chat"], "requests_per_minute": 600}
CLIENT_ACCESS = {"service": "chat", "requires_key": True}
CLIENT_ACCESS_PUT = {"requires_key": True, "reason": "Clients outside of the company use it."}
