"""Envoy, told by files: it serves without the control plane, and finds its routes when it restarts."""

from pathlib import Path

from django.conf import settings

from gateway.backends.envoy.backend import EnvoyFiles
from gateway.backends.envoy.bootstrap import command, renew_bootstrap, write_bootstrap
from gateway.backends.envoy.layout import Layout

__all__ = [
    "EnvoyFiles",
    "Layout",
    "command",
    "from_settings",
    "layout_from_settings",
    "renew_bootstrap",
    "write_bootstrap",
]


def layout_from_settings() -> Layout:
    return Layout(
        run_dir=Path(settings.SLIPWAY_RUN_DIR) / "envoy",
        log_dir=Path(settings.SLIPWAY_LOG_DIR),
        bind=settings.SLIPWAY_BIND,
        port=settings.SLIPWAY_GATEWAY_PORT,
        admin_port=settings.SLIPWAY_GATEWAY_ADMIN_PORT,
        header_seconds=settings.SLIPWAY_CLIENT_HEADER_SECONDS,
        idle_seconds=settings.SLIPWAY_CLIENT_IDLE_SECONDS,
    )


def from_settings() -> EnvoyFiles:
    return EnvoyFiles(layout_from_settings())
