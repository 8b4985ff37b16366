class GatewayError(Exception):
    """Anything the gateway can refuse or fail."""


class StaleFence(GatewayError):
    """A later writer has already set this route."""


class UnknownRoute(GatewayError):
    """There is no such route."""


class InvalidRoute(GatewayError):
    """The gateway would refuse, or silently misroute, this configuration."""


class GatewayUnreachable(GatewayError):
    """The gateway's admin endpoint does not answer."""
