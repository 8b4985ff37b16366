"""Differences between kinds of clusters, as data: others ask for an ability, never for a kind."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAbilities:
    """Abilities of a backend that do not depend on a cluster's settings."""

    has_pods: bool = False
    """Workers are pods, which have settings and patches; otherwise processes of the machine."""
    pulls_images: bool = False
    runs_on_host: bool = False
    """Workers, jobs and gateway are processes and files of one host, beside those of the control plane."""
    has_credentials: bool = False
    """A cluster is reached over a network, with a credential of its own."""
    tells_changes: bool = False
    """A process can watch a cluster (`extras.Watchable`)."""
    tells_conditions: bool = False
    """A cluster keeps conditions and events of its machines, which others may write."""
    fetches_files: bool = False
    """Workers may fetch files of versions from this server, with a token of their cluster."""
    reports_by_token: bool = False
    """Workers report by themselves, with tokens of their deployments, where no agent does it."""
