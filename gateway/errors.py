from common.errors import SlipwayError


class GatewayError(SlipwayError):
    """Anything the gateway can refuse or fail."""


class StaleFence(GatewayError):
    """A later writer has already set this route."""


class UnknownRoute(GatewayError):
    """There is no such route."""


class InvalidRoute(GatewayError):
    """The gateway would refuse, or silently misroute, this configuration. The text says which part and
    why."""


class InvalidEndpoint(GatewayError):
    """A worker's address that the gateway cannot connect to as it stands."""


class GatewayUnreachable(GatewayError):
    """The gateway does not answer, or has not taken the configuration in time.

    What was asked for is written down and will be taken as soon as the gateway runs: repeating the call is
    safe.
    """


class GatewayBusy(GatewayError):
    """Another writer has held the gateway's files for too long. Repeating the call is safe."""
