"""`slipway credential`."""

from slipway.cli.federation import credentials as app

__all__ = ["app"]
