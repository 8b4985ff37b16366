from django.utils.translation import gettext as _

from common.errors import Conflict, Invalid, Missing, SlipwayError, Unavailable


class GatewayError(SlipwayError):
    """Anything the gateway can refuse or fail."""


class StaleRouteFence(GatewayError):
    """A later writer has already set this route."""


class UnknownRoute(GatewayError):
    """There is no such route."""


class NoGateway(GatewayError, Missing):
    """The cluster has no gateway."""

    def __init__(self, cluster: str | int) -> None:
        super().__init__(
            _("The cluster %(cluster)s has no gateway. Name one, then try again.") % {"cluster": cluster}
        )


class InvalidGateway(GatewayError, Invalid):
    """No gateway can be reached with these settings."""


class GatewayTaken(GatewayError, Conflict):
    """Another cluster's gateway already has this address."""


class GatewayInUse(GatewayError, Conflict):
    """Services are reached through it."""


class InvalidRoute(GatewayError):
    """The gateway would refuse, or silently misroute, this configuration. The text says which part and
    why."""


class InvalidEndpoint(GatewayError):
    """An address or a service that the gateway cannot send to as it stands."""


class GatewayUnreachable(GatewayError):
    """The gateway does not answer, or has not taken the configuration in time.

    What was asked for is written down and will be taken as soon as the gateway runs: repeating the call is
    safe.
    """


class QueryRefused(GatewayUnreachable):
    """Prometheus answers, and takes the query for no PromQL, or for too dear."""


class GatewayRightsMissing(GatewayUnreachable, Unavailable):
    """The cluster refuses the credential, or what it may do: both come back without a change of ours."""


class CountsPending(GatewayUnreachable):
    """Another host was asked a moment ago what its gateway counts."""


class GatewayBusy(GatewayError):
    """Another writer has held the gateway's files for too long. Repeating the call is safe."""
