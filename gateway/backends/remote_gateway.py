"""A gateway that is told by files of another host: from here it can only be looked at, in rows."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NoReturn

from django.utils.translation import gettext as _

from common.fence import Fence
from gateway.backends.base import GatewayClass, GatewayHealth
from gateway.errors import GatewayUnreachable
from gateway.routes import AbilitySpec, NamedService, RouteSpec, WorkerEndpoint
from gateway.traffic import TargetCounts


class RemoteGateway:
    """A TrafficBackend and TrafficMetrics whose every question is answered with where to go.

    What is written on rows is carried out by the processes of the other host; nothing here does so.
    """

    def __init__(self, host: str) -> None:
        self._host = host

    def set_route(self, spec: RouteSpec, *, fence: Fence) -> None:
        self._refuse()

    def set_target(
        self, target: str, to: Sequence[WorkerEndpoint] | NamedService, *, observed_at: datetime
    ) -> None:
        self._refuse()

    def set_abilities(self, specs: Sequence[AbilitySpec], *, observed_at: datetime) -> None:
        self._refuse()

    def remove_route(self, route: str, *, fence: Fence) -> None:
        self._refuse()

    def refresh(self) -> None:
        self._refuse()

    def desired_route(self, route: str) -> RouteSpec | None:
        self._refuse()

    def ready(self, target: str) -> frozenset[WorkerEndpoint | NamedService]:
        self._refuse()

    def counts(self, route: str, *, taken_after: datetime | None = None) -> Mapping[str, TargetCounts]:
        self._refuse()

    def cannot(self) -> Mapping[str, str]:
        return {}

    def lacking(self) -> str:
        return ""

    def gateway_class(self) -> GatewayClass | None:
        return None

    def health(self) -> GatewayHealth:
        return GatewayHealth(False, self._said())

    def _refuse(self) -> NoReturn:
        raise GatewayUnreachable(self._said())

    def _said(self) -> str:
        return _("The gateway can only be configured on the host %(host)s.") % {"host": self._host}
