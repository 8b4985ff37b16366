"""A Dataset of Fluid per version: its runtime caches what lies at a mount point of the cluster's, near pods.

Dataset, runtime and DataLoad have one name; the claim that pods mount has it, too, and is Fluid's.
"""

from collections.abc import Collection

from clusters.backends.base import CannotRun, DeploymentSpec, FilesFetch, FilesPending
from clusters.backends.kubernetes.files.base import Document, FilesMount
from clusters.backends.kubernetes.files.version_objects import (
    LABELS,
    VersionObjects,
    annotations_of,
    owned_by,
    size_of,
)
from clusters.backends.kubernetes.quantities import whole
from clusters.backends.kubernetes.settings import KubernetesSettings
from kube.base import KubernetesClient, Object
from kube.errors import AlreadyExists, NotFound, ObjectChanged
from kube.resources import (
    ALLUXIO_RUNTIMES,
    DATA_LOADS,
    DATASETS,
    JINDO_RUNTIMES,
    JUICEFS_RUNTIMES,
    Ref,
    Resource,
)

RUNTIMES = {"alluxio": ALLUXIO_RUNTIMES, "jindo": JINDO_RUNTIMES, "juicefs": JUICEFS_RUNTIMES}
LOADED = "slipway.io/loaded"


class FluidDataset:
    def __init__(self, client: KubernetesClient, settings: KubernetesSettings) -> None:
        self._client = client
        self._settings = settings
        self._datasets = VersionObjects(client, DATASETS, "dataset")

    def mount(self, spec: DeploymentSpec, *, namespace: str) -> FilesMount:
        dataset = self._datasets.ensure(spec, namespace, lambda: self._dataset(spec))
        name = dataset["metadata"]["name"]
        self._make(RUNTIMES[self._settings.fluid_runtime], self._runtime(spec), dataset)
        status = dataset.get("status") or {}
        phase = status.get("phase") or "Pending"
        if phase == "Failed":
            raise CannotRun(
                f"Fluid cannot provide the dataset {name}: {_message(status) or 'it does not say why.'}"
            )
        come = _come(spec, name, status)
        if phase != "Bound":
            said = _message(status)
            words = f"Fluid is preparing the dataset {name} ({phase}). {said}".strip()
            raise FilesPending(words, (come,))
        if LOADED not in annotations_of(dataset):
            self._load(dataset, come)
        return FilesMount(volume={"persistentVolumeClaim": {"claimName": name, "readOnly": True}})

    def remove_unused(self, needed: Collection[str]) -> None:
        if self._client.serves(DATASETS):
            for namespace in self._settings.all_namespaces:
                self._datasets.remove_unused(namespace, needed)

    def _load(self, dataset: Object, come: FilesFetch) -> None:
        """Returns when all of it is cached; otherwise raises FilesPending, and CannotRun for what failed."""
        metadata = dataset["metadata"]
        name = metadata["name"]
        target = {"name": name, "namespace": metadata["namespace"]}
        wanted = {"dataset": target, "loadMetadata": True, "target": [{"path": "/", "replicas": 1}]}
        load = self._make(DATA_LOADS, wanted, dataset)
        status = load.get("status") or {}
        phase = status.get("phase") or "Pending"
        if phase == "Complete":
            self._datasets.note(dataset, {LOADED: "true"})
            self._forget(load)
            return
        if phase == "Failed":
            # Another look makes another one.
            self._forget(load)
            raise CannotRun(
                f"Fluid could not load the dataset {name}: {_message(status) or 'it does not say why.'} "
                "It is tried again."
            )
        raise FilesPending(f"Fluid is loading the dataset {name} ({phase}).", (come,))

    def _dataset(self, spec: DeploymentSpec) -> Document:
        settings = self._settings
        model, _, version = spec.version.label.partition(":")
        known = {
            "id": str(spec.version.id),
            "digest": spec.version.digest,
            "model": model,
            "version": version,
        }
        mount: Document = {
            "name": "files",
            "path": "/",
            "mountPoint": settings.fluid_mount.format_map(known),
            "readOnly": True,
        }
        if settings.fluid_options:
            mount["options"] = dict(settings.fluid_options)
        if settings.fluid_secret_options:
            mount["encryptOptions"] = [
                {"name": option, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
                for option, place in settings.fluid_secret_options.items()
                for secret, _slash, key in [place.partition("/")]
            ]
        return {
            "apiVersion": DATASETS.api_version,
            "kind": DATASETS.kind,
            "spec": {"mounts": [mount], "accessModes": ["ReadOnlyMany"]},
        }

    def _runtime(self, spec: DeploymentSpec) -> Document:
        gib = -(-size_of(spec) * 11 // 10 // 1024**3) + 1
        level = {
            "mediumtype": self._settings.fluid_medium,
            "path": self._settings.fluid_cache,
            "quota": f"{gib}Gi",
            "high": "0.99",
            "low": "0.95",
        }
        return {"replicas": self._settings.fluid_replicas, "tieredstore": {"levels": [level]}}

    def _make(self, resource: Resource, wanted: Document, dataset: Object) -> Object:
        """The one of the dataset's name; one of an earlier dataset goes first."""
        metadata = dataset["metadata"]
        ref = Ref(resource, metadata["name"], metadata["namespace"])
        try:
            found = self._client.get(ref)
        except NotFound:
            names = {"name": ref.name, "namespace": ref.namespace, "labels": LABELS}
            document = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": names | {"ownerReferences": [owned_by(dataset)]},
                "spec": wanted,
            }
            try:
                return self._client.create(document)
            except AlreadyExists:
                raise FilesPending(f"Another one makes {ref} at this moment.") from None
        owners = found["metadata"].get("ownerReferences") or ()
        if not any(one["uid"] == metadata["uid"] for one in owners):
            raise FilesPending(f"{ref} of before is still being removed.")
        return found

    def _forget(self, load: Object) -> None:
        metadata = load["metadata"]
        try:
            self._client.delete(Ref(DATA_LOADS, metadata["name"], metadata["namespace"]), uid=metadata["uid"])
        except (NotFound, ObjectChanged):
            return


def _come(spec: DeploymentSpec, name: str, status: Object) -> FilesFetch:
    size = size_of(spec)
    cached = _bytes((status.get("cacheStates") or {}).get("cached", ""))
    return FilesFetch(place=f"dataset {name}", come_bytes=min(cached, size), size_bytes=size)


def _bytes(text: str) -> int:
    """`3.10GiB`, as Fluid writes amounts; 0 for what is none."""
    try:
        return whole(text.strip().removesuffix("B"))
    except ValueError:
        return 0


def _message(status: Object) -> str:
    """Return the message of the newest condition that has one."""
    said = [one.get("message", "") for one in status.get("conditions") or () if one.get("message")]
    return str(said[-1]) if said else ""
