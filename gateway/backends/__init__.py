"""Whatever splits the traffic. `backend()` is the one that the settings name."""

from functools import cache
from importlib import import_module
from typing import cast

from django.conf import settings

from gateway.backends.base import TrafficBackend


@cache
def backend() -> TrafficBackend:
    """The backend of `settings.SLIPWAY_TRAFFIC_BACKEND`, one per process."""
    module = import_module(settings.SLIPWAY_TRAFFIC_BACKEND)
    return cast(TrafficBackend, module.from_settings())
