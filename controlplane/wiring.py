"""Every asynchronous edge of the system: which event is handed to whom, after the commit."""

from common import tasks as doorbell
from common.events import subscribe
from common.live import touch
from common.reconcile import Due
from releases.events import ReleaseMoved, ServiceChanged


def connect() -> None:
    """Subscribe everything; called once, when Django has loaded the apps."""
    subscribe(Due, doorbell.ring)
    subscribe(ReleaseMoved, show_release)
    subscribe(ServiceChanged, show_service)


def show_release(moved: ReleaseMoved) -> None:
    """Open pages look again."""
    touch("release", moved.release_id)
    show_service(ServiceChanged(moved.service_id))


def show_service(changed: ServiceChanged) -> None:
    touch("service", changed.service_id)
    touch("releases")
