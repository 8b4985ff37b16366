"""`slipway service-account`."""

from slipway.cli.federation import accounts as app

__all__ = ["app"]
