"""Settings of a gateway of this kind in its row."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from gateway.backends.checks import LABEL
from gateway.errors import InvalidGateway

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_HOSTNAME = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_FEATURE = re.compile(r"[A-Za-z]{1,128}")
_TIMEOUT = re.compile(r"([0-9]{1,5}(h|m|s|ms)){1,4}")
_LISTS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "namespaces": (LABEL, "names of namespaces"),
    "hostnames": (_HOSTNAME, "names of hosts, in lower case and without a port"),
    "assume_features": (_FEATURE, "names of features, as in GatewayClass.status.supportedFeatures"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPicker:
    """A Service of the user's that knows the protocol of endpoint pickers; one for each pool where its name
    has `{pool}`."""

    picker: str
    port: int = 9002
    failure_mode: str = "FailClose"
    """`FailOpen`: while it does not answer, any pod of the pool will do."""

    def name_for(self, pool: str) -> str:
        return self.picker.replace("{pool}", pool)

    @classmethod
    def read(cls, given: Any) -> Self:
        """Raises InvalidGateway."""
        if not isinstance(given, Mapping) or given.keys() - {"picker", "port", "failure_mode"}:
            raise _wrong('inference_pools: an object: {"picker": "{pool}-epp", "port": 9002}.')
        made = cls(**{"picker": "", **given})
        if not isinstance(made.picker, str) or not LABEL.fullmatch(made.name_for("x")):
            raise _wrong("inference_pools: picker names a Service, with {pool} where each pool has its own.")
        if not isinstance(made.port, int) or not 1 <= made.port <= 65535:
            raise _wrong("inference_pools: port is a number from 1 to 65535.")
        if made.failure_mode not in ("FailOpen", "FailClose"):
            raise _wrong("inference_pools: failure_mode is FailOpen or FailClose.")
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayApiSettings:
    """The row's `settings`. It has no secrets of its own: the cluster's credential is used."""

    gateway: str
    """Name of the Gateway that routes attach to."""
    gateway_namespace: str = ""
    """Where it is; empty: in `namespace`."""
    section: str = ""
    """Its listener; empty: all of them."""
    namespace: str = "slipway"
    """Where HTTPRoutes are made, and where the Services of deployments are looked for first."""
    namespaces: tuple[str, ...] = ()
    """Others in which deployments may be; the owner of each must allow it by a ReferenceGrant."""
    hostnames: tuple[str, ...] = ()
    """That routes are for; none: those of the listener."""
    scheme: str = "http"
    """Of the address that clients are shown."""
    http_routes: tuple[tuple[str, str], ...] = ()
    """Services whose rules go into an HTTPRoute that somebody else owns: (service, its name)."""
    request_timeout: str = "0s"
    """Of a whole answer, as Gateway API writes it; 0s: none."""
    assume_features: tuple[str, ...] = ()
    """That its class has without saying so."""
    inference_pools: EndpointPicker | None = None
    """Who picks the pod within a version: routes then lead to InferencePools; None: to Services."""

    def __post_init__(self) -> None:
        for key in ("gateway", "section"):
            value = getattr(self, key)
            if (value or key == "gateway") and not _SUBDOMAIN.fullmatch(value):
                raise _wrong(f"{key}: {value!r} cannot be a name in Kubernetes.")
        for key in ("namespace", "gateway_namespace"):
            value = getattr(self, key)
            if (value or key == "namespace") and not LABEL.fullmatch(value):
                raise _wrong(f"{key}: {value!r} cannot name a namespace.")
        for key, (pattern, what) in _LISTS.items():
            if odd := [one for one in getattr(self, key) if not pattern.fullmatch(one)]:
                raise _wrong(f"{key}: {odd[0]!r} is wrong; give {what}.")
        for _, name in self.http_routes:
            if not _SUBDOMAIN.fullmatch(name):
                raise _wrong(f"http_routes: {name!r} cannot name an HTTPRoute.")
        if self.scheme not in ("http", "https"):
            raise _wrong("scheme: http or https.")
        if not _TIMEOUT.fullmatch(self.request_timeout):
            raise _wrong("request_timeout: as Gateway API writes it: 0s (none), 90s, 10m.")

    @property
    def parent_namespace(self) -> str:
        return self.gateway_namespace or self.namespace

    @property
    def all_namespaces(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.namespace, *self.namespaces)))

    @property
    def public_url(self) -> str:
        """Return the URL for clients; empty where no host is named: then the row must say it."""
        hosts = [one for one in self.hostnames if not one.startswith("*")]
        return f"{self.scheme}://{hosts[0]}" if hosts else ""

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """Raises InvalidGateway naming the setting that is wrong or not known."""
        known = {one.name for one in fields(cls)}
        if unknown := sorted(settings.keys() - known):
            raise _wrong(
                f"{', '.join(unknown)}: no such setting of this kind of gateway. There are "
                f"{', '.join(sorted(known))}."
            )
        if "gateway" not in settings:
            raise _wrong("gateway: name the Gateway of the cluster that routes attach to.")
        given = dict(settings)
        for key in _LISTS:
            names = given.get(key, ())
            if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
                raise _wrong(f"{key}: a list of {_LISTS[key][1]}.")
            given[key] = tuple(names)
        given["http_routes"] = _pairs(given.get("http_routes", {}))
        pools = given.get("inference_pools")
        given["inference_pools"] = None if pools is None else EndpointPicker.read(pools)
        for key, value in given.items():
            if key not in (*_LISTS, "http_routes", "inference_pools") and not isinstance(value, str):
                raise _wrong(f"{key}: must be a text.")
        return cls(**given)


def _pairs(given: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for one in given.values()):
        raise _wrong('http_routes: an object of services and names of HTTPRoutes: {"chat": "models"}.')
    return tuple(sorted(given.items()))


def _wrong(message: str) -> InvalidGateway:
    return InvalidGateway(fields={"settings": [message]})
