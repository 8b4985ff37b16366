"""The Envoy of a gateway's row: this machine's own, or another one beside it."""

import ipaddress
from pathlib import Path
from typing import Any

from django.conf import settings

from gateway.backends.base import GatewayBackend, GatewayRowConfig
from gateway.backends.envoy.backend import EnvoyFiles
from gateway.backends.envoy.counters import EnvoyCounters
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.errors import InvalidGateway

PORTS = ("port", "admin_port")
KNOWN = (*PORTS, "bind")


def from_config(config: GatewayRowConfig) -> GatewayBackend:
    """Build the backend; without settings, of this installation's own Envoy. Raises InvalidGateway."""
    layout = layout_from(config)
    url = _local_url(layout) if config.settings else settings.SLIPWAY_GATEWAY_URL
    files, counters = EnvoyFiles(layout), EnvoyCounters(layout)
    return GatewayBackend(
        traffic=files,
        metrics=counters,
        access=files,
        clients=counters,
        public_url=url,
        occupies=frozenset(f"port {port}" for port in (layout.port, layout.admin_port)),
    )


def layout_from(config: GatewayRowConfig) -> EnvoyFileLayout:
    """Raises InvalidGateway."""
    if config.secrets:
        raise InvalidGateway(fields={"secrets": ["Envoy by files takes no secrets."]})
    if not config.settings:
        return own_layout()
    ports = _ports(config.settings)
    # Directories of its own: neither its routes nor its counts are those of another gateway.
    return EnvoyFileLayout(
        run_dir=Path(settings.SLIPWAY_RUN_DIR) / "gateways" / config.cluster,
        log_dir=Path(settings.SLIPWAY_LOG_DIR) / "gateways" / config.cluster,
        bind=_bind(config.settings.get("bind", settings.SLIPWAY_BIND)),
        **ports,
        otlp=settings.SLIPWAY_OTLP_TRACES,
        **_limits(),
    )


def own_layout() -> EnvoyFileLayout:
    """Return the layout of the Envoy that this installation runs."""
    return EnvoyFileLayout(
        run_dir=Path(settings.SLIPWAY_RUN_DIR) / "envoy",
        log_dir=Path(settings.SLIPWAY_LOG_DIR),
        bind=settings.SLIPWAY_BIND,
        port=settings.SLIPWAY_GATEWAY_PORT,
        admin_port=settings.SLIPWAY_GATEWAY_ADMIN_PORT,
        otlp=settings.SLIPWAY_OTLP_TRACES,
        **_limits(),
    )


def _limits() -> dict[str, int]:
    return {
        "header_seconds": settings.SLIPWAY_CLIENT_HEADER_SECONDS,
        "idle_seconds": settings.SLIPWAY_CLIENT_IDLE_SECONDS,
    }


def _ports(given: Any) -> dict[str, int]:
    if unknown := sorted(set(given) - set(KNOWN)):
        raise InvalidGateway(
            fields={"settings": [f"Envoy by files has no setting {unknown[0]}. Known: {', '.join(KNOWN)}."]}
        )
    for name in PORTS:
        port = given.get(name)
        if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65535:
            raise InvalidGateway(
                fields={
                    "settings": [
                        f"{name}: must be a port, 1 to 65535; no settings at all: this "
                        "installation's own Envoy."
                    ]
                }
            )
    if given["port"] == given["admin_port"]:
        raise InvalidGateway(fields={"settings": ["admin_port: must differ from port."]})
    return {name: given[name] for name in PORTS}


def _bind(address: Any) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        raise InvalidGateway(
            fields={
                "settings": ["bind: must be an IP address of this machine, such as 127.0.0.1 or 0.0.0.0."]
            }
        ) from None


def _local_url(layout: EnvoyFileLayout) -> str:
    address = ipaddress.ip_address(layout.bind)
    if address.is_unspecified:
        address = ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"http://{host}:{layout.port}"
