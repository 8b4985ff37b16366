"""Every asynchronous edge of the system: which event is handed to whom, after the commit."""

from common import tasks as doorbell
from common.events import subscribe
from common.reconcile import Due


def connect() -> None:
    """Subscribe everything; called once, when Django has loaded the apps."""
    subscribe(Due, doorbell.ring)
