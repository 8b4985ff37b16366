"""A volume claim per version, which a Job of ours fills once and pods mount read-only.

The Job belongs to the claim: one whose claim is gone goes with it. A claim says itself that it is full
(`slipway.io/filled-at`), so that the Job may go.
"""

import time
from collections.abc import Collection, Sequence

from clusters.backends.base import CannotRun, DeploymentSpec, FilesFetch, FilesPending
from clusters.backends.kubernetes.anchors import check_ours
from clusters.backends.kubernetes.files.base import (
    CONFINED,
    MODELS,
    Document,
    FilesMount,
    directory_of,
    fetch_command,
    fetch_image,
    fetch_token,
)
from clusters.backends.kubernetes.files.storage import ClaimStorage
from clusters.backends.kubernetes.files.version_claims import (
    LABELS,
    VersionClaims,
    annotations_of,
    owned_by,
    size_of,
)
from clusters.backends.kubernetes.manifests import VERSION
from clusters.backends.kubernetes.pods import FILES_CONTAINER, moment, why_not_done
from clusters.backends.kubernetes.settings import KubernetesSettings
from kube.base import KubernetesClient, Object
from kube.errors import AlreadyExists, KubeError, NotFound, ObjectChanged
from kube.resources import EVENTS, JOBS, PODS, Ref
from model_store.fetch_progress import FetchProgress

FILLED_AT = "slipway.io/filled-at"
TRIES = 4
TRIED_AGAIN_AFTER_SECONDS = 300.0
LOG_LINES = 20


class FilledClaim:
    def __init__(
        self, client: KubernetesClient, settings: KubernetesSettings, storage: ClaimStorage | None
    ) -> None:
        """`storage`: None where claims are only removed."""
        self._client = client
        self._settings = settings
        self._storage = storage
        self._claims = VersionClaims(client)

    def mount(self, spec: DeploymentSpec, *, namespace: str) -> FilesMount:
        claim = self._claims.ensure(spec, namespace, lambda: self._claim(spec))
        if FILLED_AT not in annotations_of(claim):
            self._fill(spec, claim)
        name = claim["metadata"]["name"]
        return FilesMount(
            volume={"persistentVolumeClaim": {"claimName": name, "readOnly": True}},
            sub_path=directory_of(spec),
        )

    def remove_unused(self, needed: Collection[str]) -> None:
        for namespace in self._settings.all_namespaces:
            self._claims.remove_unused(namespace, needed)

    def _claim(self, spec: DeploymentSpec) -> Document:
        assert self._storage is not None  # noqa: S101
        wanted: Document = {
            "accessModes": list(self._storage.access_modes),
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": f"{self._storage.gib_for(size_of(spec))}Gi"}},
            "storageClassName": self._storage.name,
        }
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": wanted}

    def _fill(self, spec: DeploymentSpec, claim: Object) -> None:
        """Returns when all of it is there; otherwise raises FilesPending, and CannotRun for what failed."""
        name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
        ref = Ref(JOBS, f"{name}-fill", namespace)
        try:
            job = self._client.get(ref)
        except NotFound:
            try:
                job = self._client.create(self._job(spec, claim, ref.name))
            except AlreadyExists:
                raise FilesPending(f"Another one fills the volume claim {name}.") from None
        check_ours(job)
        owners = job["metadata"].get("ownerReferences") or ()
        if not any(one["uid"] == claim["metadata"]["uid"] for one in owners):
            self._forget(job)
            raise FilesPending(f"What filled a volume claim {name} of before is being removed.")
        conditions = {one["type"]: one for one in (job.get("status") or {}).get("conditions") or ()}
        if conditions.get("Complete", {}).get("status") == "True":
            self._claims.note(claim, {FILLED_AT: str(int(time.time()))})
            self._forget(job)
            return
        pods = self._pods_of(job)
        failed = conditions.get("Failed", {})
        if failed.get("status") == "True":
            if time.time() - moment(failed.get("lastTransitionTime")).timestamp() > TRIED_AGAIN_AFTER_SECONDS:
                self._forget(job)
                raise FilesPending(f"The volume claim {name} could not be filled; it is tried again.")
            why = next((words for pod in reversed(pods) if (words := why_not_done(pod))), "")
            raise CannotRun(
                f"The volume claim {name} could not be filled: {why or failed.get('message', '')} It is "
                f"tried again {TRIED_AGAIN_AFTER_SECONDS / 60:.0f} min later."
            )
        why = self._why_unbound(claim) or (why_not_done(pods[-1]) if pods else "")
        raise FilesPending(
            f"Its files are being brought to the volume claim {name}. {why}".strip(),
            (self._come(spec, name, pods),),
        )

    def _job(self, spec: DeploymentSpec, claim: Object, name: str) -> Document:
        metadata = claim["metadata"]
        secrets = dict.fromkeys((*spec.placement.image_pull_secrets, *self._settings.image_pull_secrets))
        fetch = {
            "name": FILES_CONTAINER,
            "image": fetch_image(spec, self._settings),
            "command": fetch_command(spec, self._settings, cache=MODELS),
            "env": [fetch_token(self._settings)],
            "securityContext": CONFINED,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{"name": "models", "mountPath": MODELS}],
        }
        pod: Document = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10_001,
                "fsGroup": 10_001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [fetch],
            "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": metadata["name"]}}],
        }
        if secrets:
            pod["imagePullSecrets"] = [{"name": one} for one in secrets]
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": LABELS,
                "annotations": {VERSION: spec.version.label},
                "ownerReferences": [owned_by(claim)],
            },
            "spec": {
                "backoffLimit": TRIES,
                "template": {"metadata": {"labels": LABELS}, "spec": pod},
            },
        }

    def _pods_of(self, job: Object) -> Sequence[Object]:
        """The newest last."""
        metadata = job["metadata"]
        labels = f"batch.kubernetes.io/job-name={metadata['name']}"
        found = self._client.list(PODS, namespace=metadata["namespace"], labels=labels).items
        return sorted(found, key=lambda pod: pod["metadata"].get("creationTimestamp", ""))

    def _come(self, spec: DeploymentSpec, claim: str, pods: Sequence[Object]) -> FilesFetch:
        said = None
        if pods:
            ref = Ref(PODS, pods[-1]["metadata"]["name"], pods[-1]["metadata"]["namespace"])
            try:
                text = self._client.logs(ref, container=FILES_CONTAINER, lines=LOG_LINES)
                said = FetchProgress.of_log(text)
            except KubeError:
                said = None  # it has not begun, or its machine does not tell
        return FilesFetch(
            place=f"claim {claim}",
            come_bytes=said.come_bytes if said else 0,
            size_bytes=size_of(spec),
            bytes_per_second=said.bytes_per_second if said else None,
        )

    def _why_unbound(self, claim: Object) -> str:
        """Return the provisioner's reason for an unbound claim."""
        if (claim.get("status") or {}).get("phase") == "Bound":
            return ""
        metadata = claim["metadata"]
        fields = f"involvedObject.name={metadata['name']},involvedObject.kind=PersistentVolumeClaim"
        try:
            events = self._client.list(EVENTS, namespace=metadata["namespace"], fields=fields).items
        except KubeError:
            return ""
        warnings = [one for one in events if one.get("type") == "Warning"]
        return f"It is not provided: {warnings[-1].get('message', '')}" if warnings else ""

    def _forget(self, job: Object) -> None:
        metadata = job["metadata"]
        try:
            self._client.delete(Ref(JOBS, metadata["name"], metadata["namespace"]), uid=metadata["uid"])
        except (NotFound, ObjectChanged):
            return
