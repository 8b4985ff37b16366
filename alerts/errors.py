from common.errors import Conflict, Invalid


class InvalidSilence(Invalid):
    """A silence that matches nothing it may, or ends before it begins; `fields` says where."""


class InvalidAlerts(Invalid):
    """Alerts of an outside system that cannot be understood."""


class AlertIsOver(Conflict):
    """The alert is resolved: nothing is to be done about it."""
