"""The choice of how pods get model files, by what a cluster has, and why. `look` asks, `choose` is pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusters.backends.base import CannotRun
from clusters.backends.kubernetes.files.base import FileDelivery
from clusters.backends.kubernetes.files.claim import ExistingClaim
from clusters.backends.kubernetes.files.filled_claim import FilledClaim
from clusters.backends.kubernetes.files.node_cache import NodeCacheDelivery
from clusters.backends.kubernetes.files.storage import ClaimStorage, pick
from clusters.backends.kubernetes.settings import FileDeliveryKind, KubernetesSettings
from kube.base import KubernetesClient, Object
from kube.errors import ApiForbidden, NotFound
from kube.resources import NAMESPACES, STORAGE_CLASSES, VOLUME_CLAIMS, Ref

_STRICT = frozenset({"baseline", "restricted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFacts:
    """Features of a cluster, for one namespace, that decide how files can be delivered."""

    pod_security: str = ""
    """The level that the namespace enforces."""
    storage_classes: Sequence[Object] = ()
    has_claim: bool = False
    """The one that the settings name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryChoice:
    way: FileDeliveryKind
    """AUTO: there is none."""
    reason: str
    """In a sentence; what to do where there is no way."""
    storage: ClaimStorage | None = None
    is_ready: bool = True
    """False: somebody has to do something first, as the reason says."""

    @property
    def words(self) -> str:
        return self.reason if self.way is FileDeliveryKind.AUTO else f"{WORDS[self.way]}: {self.reason}"


WORDS: Mapping[FileDeliveryKind, str] = {
    FileDeliveryKind.NODE_CACHE: "Each machine keeps a cache",
    FileDeliveryKind.FILLED_CLAIM: "A volume claim per version, filled by a Job",
    FileDeliveryKind.CLAIM: "The cluster's own volume claim",
}


def look(client: KubernetesClient, settings: KubernetesSettings, namespace: str) -> DeliveryFacts:
    """Read the features; those that may not be read count as absent. Raises KubeError when the cluster does
    not answer.
    """
    return DeliveryFacts(
        pod_security=_pod_security(client, namespace),
        storage_classes=_storage_classes(client),
        has_claim=_has_claim(client, settings.model_claim, namespace),
    )


def choose(found: DeliveryFacts, settings: KubernetesSettings) -> DeliveryChoice:
    wanted = settings.model_files
    if wanted is FileDeliveryKind.AUTO:
        return _best(found, settings)
    fault, storage = _fault(found, settings, wanted)
    if fault and wanted is FileDeliveryKind.CLAIM:
        # It may come at any moment, and pods wait for it.
        return DeliveryChoice(way=wanted, reason=f"the cluster's settings say so. {fault}", is_ready=False)
    if fault:
        reason = f"{WORDS[wanted]} is set, and cannot be: {fault}"
        return DeliveryChoice(way=FileDeliveryKind.AUTO, reason=reason, is_ready=False)
    return DeliveryChoice(way=wanted, reason="the cluster's settings say so.", storage=storage)


def way_of(choice: DeliveryChoice, client: KubernetesClient, settings: KubernetesSettings) -> FileDelivery:
    """Raises CannotRun where there is none."""
    match choice.way:
        case FileDeliveryKind.NODE_CACHE:
            return NodeCacheDelivery(settings)
        case FileDeliveryKind.FILLED_CLAIM:
            return FilledClaim(client, settings, choice.storage)
        case FileDeliveryKind.CLAIM:
            return ExistingClaim(settings)
        case FileDeliveryKind.AUTO:
            raise CannotRun(choice.reason)


def _best(found: DeliveryFacts, settings: KubernetesSettings) -> DeliveryChoice:
    """Return the cheapest delivery that the cluster has."""
    faults: list[str] = []
    reasons = {
        FileDeliveryKind.NODE_CACHE: "pods reach Slipway at store_url, "
        "and may use a directory of their machine.",
        FileDeliveryKind.FILLED_CLAIM: "",
        FileDeliveryKind.CLAIM: f"there is a volume claim {settings.model_claim}.",
    }
    for way, reason in reasons.items():
        why, storage = _fault(found, settings, way)
        if not why:
            if storage:
                because = f"storage class {storage.name} ({storage.reason})."
                reason = f"{because} {' '.join(faults)}".strip()
            return DeliveryChoice(way=way, reason=reason, storage=storage)
        faults.append(why)
    reason = f"There is no way for model files to come to pods. {' '.join(faults)}"
    return DeliveryChoice(way=FileDeliveryKind.AUTO, reason=reason, is_ready=False)


def _fault(
    found: DeliveryFacts, settings: KubernetesSettings, way: FileDeliveryKind
) -> tuple[str, ClaimStorage | None]:
    """Why it cannot be, in a sentence; empty where it can."""
    storage = None
    if way in (FileDeliveryKind.NODE_CACHE, FileDeliveryKind.FILLED_CLAIM) and not settings.store_url:
        return "Where pods reach Slipway is not known: set store_url.", None
    match way:
        case FileDeliveryKind.NODE_CACHE if found.pod_security in _STRICT:
            return (
                f"The namespace enforces the {found.pod_security} pod security standard, which allows no "
                "directory of machines.",
                None,
            )
        case FileDeliveryKind.FILLED_CLAIM:
            storage, fault = pick(
                found.storage_classes,
                wanted=settings.storage_class,
                access_mode=settings.claim_access_mode,
            )
            return fault, storage
        case FileDeliveryKind.CLAIM if not found.has_claim:
            return f"There is no volume claim {settings.model_claim}.", None
    return "", None


def _pod_security(client: KubernetesClient, namespace: str) -> str:
    try:
        labels = client.get(Ref(NAMESPACES, namespace))["metadata"].get("labels") or {}
    except (ApiForbidden, NotFound):
        return ""
    return str(labels.get("pod-security.kubernetes.io/enforce", ""))


def _storage_classes(client: KubernetesClient) -> Sequence[Object]:
    try:
        return client.list(STORAGE_CLASSES).items
    except ApiForbidden:
        return ()


def _has_claim(client: KubernetesClient, name: str, namespace: str) -> bool:
    try:
        client.get(Ref(VOLUME_CLAIMS, name, namespace))
    except NotFound:
        return False
    except ApiForbidden:
        return True  # pods say it if it is not
    return True
