"""Which way a cluster's pods get model files, by what it has, and why. `look` asks, `choose` is pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusters.backends.base import CannotRun
from clusters.backends.kubernetes.files.base import FilesWay
from clusters.backends.kubernetes.files.claim import Claim
from clusters.backends.kubernetes.files.filled_claim import FilledClaim
from clusters.backends.kubernetes.files.fluid import FluidDataset
from clusters.backends.kubernetes.files.image import ImageVolume
from clusters.backends.kubernetes.files.node_cache import NodeCache
from clusters.backends.kubernetes.files.storage import Storage, pick
from clusters.backends.kubernetes.settings import KubernetesSettings, ModelFiles
from kube.base import Client, Object
from kube.errors import NotAllowed, NotFound
from kube.resources import DATASETS, NAMESPACES, STORAGE_CLASSES, VOLUME_CLAIMS, Ref

IMAGE_VOLUMES_SINCE = (1, 35)
"""On by default from then; before, behind a feature gate (KEP-4639)."""
_STRICT = frozenset({"baseline", "restricted"})
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a cluster has, of which a way may make use, for one namespace."""

    version: tuple[int, int] | None = None
    """None: not known."""
    has_fluid: bool = False
    pod_security: str = ""
    """The level that the namespace enforces."""
    storage_classes: Sequence[Object] = ()
    has_claim: bool = False
    """The one that the settings name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    way: ModelFiles
    """AUTO: there is none."""
    reason: str
    """In a sentence; what to do where there is no way."""
    storage: Storage | None = None
    is_ready: bool = True
    """False: somebody has to do something first, as the reason says."""

    @property
    def words(self) -> str:
        return self.reason if self.way is ModelFiles.AUTO else f"{WORDS[self.way]}: {self.reason}"


WORDS: Mapping[ModelFiles, str] = {
    ModelFiles.NODE_CACHE: "Each machine keeps a cache",
    ModelFiles.FILLED_CLAIM: "A volume claim per version, filled by a Job",
    ModelFiles.CLAIM: "The cluster's own volume claim",
    ModelFiles.IMAGE: "An image volume",
    ModelFiles.FLUID: "A Fluid dataset per version",
}


def look(client: Client, settings: KubernetesSettings, namespace: str) -> Found:
    """What may not be read counts as not there. Raises KubeError for a cluster that does not answer."""
    return Found(
        version=_version(client),
        has_fluid=client.serves(DATASETS),
        pod_security=_pod_security(client, namespace),
        storage_classes=_storage_classes(client),
        has_claim=_has_claim(client, settings.model_claim, namespace),
    )


def choose(found: Found, settings: KubernetesSettings, label: str = "") -> Choice:
    """For the version `model:version`; empty: for one that no setting names."""
    wanted = settings.model_files
    if wanted is ModelFiles.AUTO:
        return _best(found, settings, label)
    fault, storage = _fault(found, settings, wanted, label)
    if fault and wanted is ModelFiles.CLAIM:
        # It may come at any moment, and pods wait for it.
        return Choice(way=wanted, reason=f"the cluster's settings say so. {fault}", is_ready=False)
    if fault:
        reason = f"{WORDS[wanted]} is set, and cannot be: {fault}"
        return Choice(way=ModelFiles.AUTO, reason=reason, is_ready=False)
    return Choice(way=wanted, reason="the cluster's settings say so.", storage=storage)


def way_of(choice: Choice, client: Client, settings: KubernetesSettings) -> FilesWay:
    """Raises CannotRun where there is none."""
    match choice.way:
        case ModelFiles.NODE_CACHE:
            return NodeCache(settings)
        case ModelFiles.FILLED_CLAIM:
            return FilledClaim(client, settings, choice.storage)
        case ModelFiles.CLAIM:
            return Claim(settings)
        case ModelFiles.IMAGE:
            return ImageVolume(settings)
        case ModelFiles.FLUID:
            return FluidDataset(client, settings)
        case ModelFiles.AUTO:
            raise CannotRun(choice.reason)


def _best(found: Found, settings: KubernetesSettings, label: str) -> Choice:
    """What somebody prepared for it first, then what costs least."""
    if label in settings.model_images and not _fault(found, settings, ModelFiles.IMAGE, label)[0]:
        return Choice(way=ModelFiles.IMAGE, reason=f"the cluster's settings name one for {label}.")
    faults: list[str] = []
    reasons = {
        ModelFiles.FLUID: "Fluid is installed, and fluid_mount says where the files lie.",
        ModelFiles.NODE_CACHE: "pods reach Slipway at store_url, and may use a directory of their machine.",
        ModelFiles.FILLED_CLAIM: "",
        ModelFiles.CLAIM: f"there is a volume claim {settings.model_claim}.",
    }
    for way, reason in reasons.items():
        why, storage = _fault(found, settings, way, label)
        if not why:
            if storage:
                because = f"storage class {storage.name} ({storage.reason})."
                reason = f"{because} {' '.join(faults)}".strip()
            return Choice(way=way, reason=reason, storage=storage)
        if not (way is ModelFiles.FLUID and not settings.fluid_mount):
            faults.append(why)
    reason = f"There is no way for model files to come to pods. {' '.join(faults)}"
    return Choice(way=ModelFiles.AUTO, reason=reason, is_ready=False)


def _fault(
    found: Found, settings: KubernetesSettings, way: ModelFiles, label: str
) -> tuple[str, Storage | None]:
    """Why it cannot be, in a sentence; empty where it can."""
    storage = None
    if way in (ModelFiles.NODE_CACHE, ModelFiles.FILLED_CLAIM) and not settings.store_url:
        return "Where pods reach Slipway is not known: set store_url.", None
    match way:
        case ModelFiles.NODE_CACHE if found.pod_security in _STRICT:
            return (
                f"The namespace enforces the {found.pod_security} pod security standard, which allows no "
                "directory of machines.",
                None,
            )
        case ModelFiles.FILLED_CLAIM:
            storage, fault = pick(
                found.storage_classes,
                wanted=settings.storage_class,
                access_mode=settings.claim_access_mode,
            )
            return fault, storage
        case ModelFiles.CLAIM if not found.has_claim:
            return f"There is no volume claim {settings.model_claim}.", None
        case ModelFiles.IMAGE if found.version and found.version < IMAGE_VOLUMES_SINCE:
            since = ".".join(map(str, IMAGE_VOLUMES_SINCE))
            return f"Image volumes need Kubernetes {since} or later.", None
        case ModelFiles.IMAGE if label and label not in settings.model_images:
            return f"model_images names none for {label}.", None
        case ModelFiles.FLUID if not settings.fluid_mount:
            return "fluid_mount does not say where a version's files lie.", None
        case ModelFiles.FLUID if not found.has_fluid:
            return "Fluid is not installed.", None
    return "", None


def _version(client: Client) -> tuple[int, int] | None:
    try:
        numbers = _VERSION.match(client.version())
    except NotAllowed:
        return None
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def _pod_security(client: Client, namespace: str) -> str:
    try:
        labels = client.get(Ref(NAMESPACES, namespace))["metadata"].get("labels") or {}
    except (NotAllowed, NotFound):
        return ""
    return str(labels.get("pod-security.kubernetes.io/enforce", ""))


def _storage_classes(client: Client) -> Sequence[Object]:
    try:
        return client.list(STORAGE_CLASSES).items
    except NotAllowed:
        return ()


def _has_claim(client: Client, name: str, namespace: str) -> bool:
    try:
        client.get(Ref(VOLUME_CLAIMS, name, namespace))
    except NotFound:
        return False
    except NotAllowed:
        return True  # pods say it if it is not
    return True
