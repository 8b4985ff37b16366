"""Every asynchronous edge of the system: which event is handed to whom, after the commit."""

import logging

from clusters.errors import DeploymentMissing
from clusters.events import WorkersChanged
from clusters.selectors import deployment_name
from common import tasks as doorbell
from common.events import subscribe
from common.reconcile import Due
from gateway import services as gateway
from gateway.errors import GatewayError

logger = logging.getLogger(__name__)


def connect() -> None:
    """Subscribe everything; called once, when Django has loaded the apps."""
    subscribe(Due, doorbell.ring)
    subscribe(WorkersChanged, tell_gateway_of_workers)


def tell_gateway_of_workers(event: WorkersChanged) -> None:
    """At once, for latency; what fails here the gateway's own reconciler makes good within seconds."""
    try:
        gateway.sync_workers(deployment_name(event.deployment_id))
    except (GatewayError, DeploymentMissing) as error:
        logger.warning("The gateway does not know of changed workers yet: %s", error)
