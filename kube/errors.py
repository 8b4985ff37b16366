"""What a cluster's API can refuse or fail, in our words. Messages are for people, and say what to do
where we know.
"""

from dataclasses import dataclass


class KubeError(Exception):
    """Anything that a cluster's API can refuse or fail."""


class ApiUnreachable(KubeError):
    """No answer, or none in time: whether what was asked has been done is not known."""


class ServerFault(KubeError):
    """The API server answered that it failed (5xx). What was asked may have been done."""


class Throttled(KubeError):
    """Too many requests, theirs or ours. Nothing was done."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        """None: it did not say."""


class EvictionRefused(Throttled):
    """A pod may not be evicted now: its disruption budget would be broken. Ask again later."""


class NotAuthenticated(KubeError):
    """The credential is not, or no longer, one that the cluster knows."""


class ApiForbidden(KubeError):
    """The credential may not do this. The message names user, verb and resource."""


class NamespaceEnding(KubeError):
    """Nothing can be made in a namespace that is being deleted."""


class NamespaceQuotaExceeded(KubeError):
    """A quota of the namespace leaves no room. The message has what was asked, used and allowed."""


class NotFound(KubeError):
    """There is no such object, or no such namespace."""


class NotServed(KubeError):
    """The cluster does not know this kind of object: its definition, or the server behind it, is missing."""


class AlreadyExists(KubeError):
    """An object of this name is there; perhaps it is being deleted (`is_going`)."""

    def __init__(self, message: str, *, is_going: bool = False) -> None:
        super().__init__(message)
        self.is_going = is_going


class ObjectChanged(KubeError):
    """The object, or its version, is not the one that the request was made for: read it again."""


@dataclass(frozen=True, slots=True)
class OwnedField:
    """A field that somebody else owns."""

    manager: str
    """As the server says it: `"kubectl-edit" using v1`."""
    field: str
    """`.spec.replicas`."""


class OwnedByOthers(KubeError):
    """An apply would change fields that other managers own."""

    def __init__(self, message: str, claims: tuple[OwnedField, ...]) -> None:
        super().__init__(message)
        self.claims = claims


@dataclass(frozen=True, slots=True)
class BodyFault:
    """A fault of a request's body."""

    field: str
    message: str


class InvalidObject(KubeError):
    """The cluster will not take this as it is (400, 413, 415, 422, or an apply that has no such field)."""

    def __init__(self, message: str, faults: tuple[BodyFault, ...] = ()) -> None:
        super().__init__(message)
        self.faults = faults


class HistoryLost(KubeError):
    """A watch or a page asked for what the server has forgotten: list anew and go on from there."""


class BadConfig(KubeError):
    """A kubeconfig, token or certificate that cannot be meant; the message says what is right."""


class PluginRefused(BadConfig):
    """A kubeconfig runs a program to sign in, and the operator has not allowed it."""
