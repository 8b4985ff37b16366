"""Versions that a cluster's machines may fetch: models and adapters that a deployment on it still needs."""

from contextlib import AbstractContextManager

from django.utils.translation import gettext as _

from accounts.services.rights import require, require_for_owner
from accounts.states import Right
from clusters.errors import VersionNotDeployed
from clusters.models import Cluster, Deployment, FilesToken
from clusters.states import DeploymentState
from common.actor import Actor
from common.errors import NotAllowed, WrongState
from model_store import blob_store
from model_store.errors import BlobMissing, StoreUnavailable
from model_store.reading import Content
from models_registry.companions import companions
from models_registry.files import refuse_damaged
from models_registry.models import Version, VersionFile
from models_registry.states import VersionState

_WITH_FILES = (VersionState.READY, VersionState.ARCHIVED)
"""An archived version is not released any more, but what runs it goes on, and starts anew."""


def cluster_of(actor: Actor) -> Cluster:
    """The one whose machines the actor's token speaks for. Raises NotAllowed, OutOfScope."""
    require(actor, Right.FLEET_FETCH)
    found = FilesToken.objects.select_related("cluster__team").filter(token=actor.token_id).first()
    if actor.token_id is None or found is None:
        raise NotAllowed(
            _("This token is of no cluster. Fetch model files with the one that the cluster was given.")
        )
    require_for_owner(actor, Right.FLEET_FETCH, found.cluster.team)
    return found.cluster


def version_on(cluster: Cluster, version_id: int) -> Version:
    """Raises VersionNotDeployed, WrongState for deleted files, StoreUnavailable while one is damaged."""
    living = Deployment.objects.filter(cluster=cluster).exclude(state=DeploymentState.REMOVED)
    adapters = living.exclude(adapters={}).values_list("adapters", flat=True)
    if not (
        living.filter(version=version_id).exists()
        or any(one["version"] == version_id for named in adapters for one in named.values())
    ):
        raise VersionNotDeployed(
            _("No deployment on the cluster %(cluster)s needs a version with the id %(id)s.")
            % {"cluster": cluster, "id": version_id}
        )
    version = Version.objects.select_related("model").get(pk=version_id)
    if version.state not in _WITH_FILES:
        raise WrongState(
            _("%(version)s is %(state)s, not ready: it has no files to serve.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    try:
        for one in (version, *companions(version_id).values()):
            refuse_damaged(one)
    except BlobMissing as error:
        raise StoreUnavailable(str(error), retry_after_s=30) from None
    return version


def content_of(version: Version, sha256: str) -> AbstractContextManager[Content]:
    """A file of the version, for reading. Raises VersionNotDeployed; on entering, StoreUnavailable and
    BlobMissing.
    """
    holders = [version, *companions(version.pk).values()]
    if not VersionFile.objects.filter(version__in=holders, sha256=sha256).exists():
        raise VersionNotDeployed(
            _("%(version)s has no file with the sha256 %(sha256)s.")
            % {"version": version, "sha256": sha256[:64]}
        )
    return blob_store.store().opened(sha256)
