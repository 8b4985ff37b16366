"""A patch of the pods that a service's workers run in: what it may not touch, and the template with it.

Merged as Kubernetes merges strategically: mappings deeply, `null` takes away, lists of things with a name by
that name, all others are replaced. Pure.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from clusters.backends.kubernetes.pods import CHECKPOINT, CONTAINER, FILES_CONTAINER
from clusters.backends.pod_values import is_ours as is_our_variable

Document = dict[str, Any]

ALLOWANCES: Mapping[str, str] = {
    "host_path": "volumes of the machine's directories",
    "host_namespaces": "the machine's network, processes and ports",
    "security_context": "security contexts that give more than the pod has",
    "service_account": "another service account, or its token",
}
"""What whoever operates a cluster may let patches do besides, by the word in `patch_allows`."""
_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "claims": "name",
}
_SPEC = frozenset(
    {
        "affinity", "containers", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases",
        "imagePullSecrets", "initContainers", "nodeSelector", "preemptionPolicy", "priorityClassName",
        "resourceClaims", "runtimeClassName", "schedulerName", "tolerations",
        "topologySpreadConstraints", "volumes",
    }
)  # fmt: skip
_SPEC_ALLOWED: Mapping[str, str] = {
    "hostNetwork": "host_namespaces",
    "hostPID": "host_namespaces",
    "hostIPC": "host_namespaces",
    "shareProcessNamespace": "host_namespaces",
    "securityContext": "security_context",
    "serviceAccountName": "service_account",
    "automountServiceAccountToken": "service_account",
}
_OF_WORKER = frozenset({"name", "env", "resources", "volumeMounts", "imagePullPolicy"})
_OF_FILES = frozenset({"name", "resources"})
_OUR_VOLUMES = frozenset({"shared-memory", "scratch", "models", "report-token"})
_OUR_MOUNTS = ("/dev/shm", "/scratch", "/models", "/run/slipway", "/tmp")  # noqa: S108 - of the pod
_VOLUMES = frozenset(
    {"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "name", "persistentVolumeClaim"}
)
_OUR_LABELS = re.compile(
    r"(.*\.)?(slipway\.io|kubernetes\.io|k8s\.io)/.*|slipway/.*|.*leaderworkerset.*", re.IGNORECASE
)
_BY_DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")


def patch_faults(
    patch: object, *, allows: Collection[str] = (), secrets: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return why a patch is refused, by place in it; empty: it may be applied. `secrets`: those open to
    services.
    """
    found: dict[str, list[str]] = {}
    for place, said in _Review(allows, secrets).of(patch):
        found.setdefault(place, []).append(said)
    return found


Fault = tuple[str, str]


class _Review:
    def __init__(self, allows: Collection[str], secrets: Collection[str]) -> None:
        self._allows = allows
        self._secrets = secrets

    def of(self, patch: object) -> Iterator[Fault]:
        if not isinstance(patch, Mapping):
            yield "", 'Give a JSON object, such as {"spec": {"schedulerName": "volcano"}}.'
            return
        yield from _directives(patch, "")
        for key in patch.keys() - {"metadata", "spec"}:
            yield key, "A pod template has metadata and spec."
        yield from self._metadata(patch.get("metadata", {}))
        yield from self._spec(patch.get("spec", {}))

    def _metadata(self, metadata: object) -> Iterator[Fault]:
        if not isinstance(metadata, Mapping):
            yield "metadata", "It must be an object."
            return
        for key, value in metadata.items():
            place = f"metadata.{key}"
            if key not in ("labels", "annotations"):
                yield place, "Only labels and annotations may be patched."
            elif not isinstance(value, Mapping) or not all(
                one is None or isinstance(one, str) for one in value.values()
            ):
                yield place, "It must be an object of texts."
            else:
                for name in value:
                    if name != CHECKPOINT and _OUR_LABELS.fullmatch(name):
                        yield f"{place}.{name}", "It is how Slipway and Kubernetes find the pod."

    def _spec(self, spec: object) -> Iterator[Fault]:
        if not isinstance(spec, Mapping):
            yield "spec", "It must be an object."
            return
        for key, value in spec.items():
            place = f"spec.{key}"
            if key in _SPEC_ALLOWED:
                yield from self._needs(_SPEC_ALLOWED[key], place)
            elif key not in _SPEC:
                yield place, "It is Slipway's to set."
            elif key in ("containers", "initContainers", "volumes"):
                yield from self._named(value, place)
        yield from self._containers(spec)
        for volume in _items(spec.get("volumes")):
            yield from self._volume(volume, f"spec.volumes.{volume.get('name')}")

    def _named(self, value: object, place: str) -> Iterator[Fault]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            yield place, "It must be a list; an item is meant by its name."
            return
        for number, one in enumerate(value):
            if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
                yield f"{place}.{number}", "Name it: it is merged by its name."

    def _containers(self, spec: Mapping[str, Any]) -> Iterator[Fault]:
        for kind in ("containers", "initContainers"):
            for one in _items(spec.get(kind)):
                place = f"spec.{kind}.{one.get('name')}"
                if one.get("name") == CONTAINER and kind == "containers":
                    yield from self._ours(one, place, _OF_WORKER)
                elif one.get("name") in (CONTAINER, FILES_CONTAINER):
                    yield from self._ours(one, place, _OF_FILES)
                else:
                    yield from self._sidecar(one, place)
                yield from self._environment(one, place)
                yield from self._mounts(one, place)

    def _ours(self, one: Mapping[str, Any], place: str, may: Collection[str]) -> Iterator[Fault]:
        for key in one:
            if key == "securityContext":
                yield from self._needs("security_context", f"{place}.{key}")
            elif key not in may:
                yield f"{place}.{key}", "It is Slipway's to set in its own containers."
            elif not isinstance(one[key], str | list | Mapping):
                yield f"{place}.{key}", "It cannot be taken away."

    def _sidecar(self, one: Mapping[str, Any], place: str) -> Iterator[Fault]:
        if not _BY_DIGEST.fullmatch(str(one.get("image", ""))):
            yield f"{place}.image", "Name the image by digest, repository@sha256:..."
        if _gives_more(one.get("securityContext")):
            yield from self._needs("security_context", f"{place}.securityContext")
        for port in _items(one.get("ports")):
            if "hostPort" in port:
                yield from self._needs("host_namespaces", f"{place}.ports")
            if port.get("name") == "http":
                yield f"{place}.ports", "The port http is the worker's: requests go there."

    def _environment(self, one: Mapping[str, Any], place: str) -> Iterator[Fault]:
        is_worker = one.get("name") == CONTAINER
        for variable in _items(one.get("env")):
            name = variable.get("name", "")
            if is_worker and is_our_variable(str(name)):
                yield f"{place}.env.{name}", "It is set by Slipway."
            ref = _object(_object(variable.get("valueFrom")).get("secretKeyRef")).get("name")
            yield from self._secret(ref, f"{place}.env.{name}")
        for source in _items(one.get("envFrom")):
            yield from self._secret(_object(source.get("secretRef")).get("name"), f"{place}.envFrom")

    def _mounts(self, one: Mapping[str, Any], place: str) -> Iterator[Fault]:
        for mount in _items(one.get("volumeMounts")):
            path = str(mount.get("mountPath", ""))
            if one.get("name") == CONTAINER and any(
                path == our or path.startswith(f"{our}/") or our.startswith(f"{path.rstrip('/')}/")
                for our in _OUR_MOUNTS
            ):
                yield f"{place}.volumeMounts", f"{path} is where Slipway mounts its own."
            if mount.get("name") == "report-token":
                yield f"{place}.volumeMounts", "The token is the worker's alone."
            if mount.get("name") == "models" and mount.get("readOnly") is not True:
                yield f"{place}.volumeMounts", "Others read these files, too: mount them with readOnly."

    def _volume(self, volume: Mapping[str, Any], place: str) -> Iterator[Fault]:
        if volume.get("name") in _OUR_VOLUMES:
            yield place, "This volume is Slipway's."
            return
        for kind, value in volume.items():
            if kind == "hostPath":
                yield from self._needs("host_path", place)
            elif kind == "secret":
                yield from self._secret(_object(value).get("secretName"), place)
            elif kind == "projected":
                for source in _items(_object(value).get("sources")):
                    yield from self._secret(_object(source.get("secret")).get("name"), place)
                    if "serviceAccountToken" in source:
                        yield from self._needs("service_account", place)
            elif kind not in _VOLUMES:
                yield f"{place}.{kind}", f"Volumes may be {', '.join(sorted(_VOLUMES - {'name'}))} or secret."

    def _secret(self, name: object, place: str) -> Iterator[Fault]:
        if name and name not in self._secrets:
            yield (
                place,
                f"Services may not read the secret {name}: it is not among the cluster's env_secrets.",
            )

    def _needs(self, allowance: str, place: str) -> Iterator[Fault]:
        if allowance not in self._allows:
            yield (
                place,
                (
                    f"The cluster does not let patches set {ALLOWANCES[allowance]}: whoever operates it "
                    f"can, by {allowance} in patch_allows of its settings."
                ),
            )


def patched(template: Document, patch: Mapping[str, Any]) -> Document:
    """`template` with the patch, which `patch_faults` has nothing against; both stay as they are."""
    return dict(_merged(template, patch))


def _merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    result = dict(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            present = result.get(key)
            result[key] = _merged(present if isinstance(present, Mapping) else {}, value)
        elif isinstance(value, list | tuple) and key in _KEYS:
            result[key] = _merged_lists(result.get(key) or [], value, _KEYS[key])
        else:
            result[key] = value
    return result


def _merged_lists(base: Sequence[Any], patch: Sequence[Any], name: str) -> list[Any]:
    """Merge lists of named items: existing items keep their place, new ones follow."""
    result = list(base)
    for one in patch:
        if not isinstance(one, Mapping):
            result.append(one)
            continue
        at = next((place for place, known in enumerate(result) if known.get(name) == one.get(name)), None)
        if at is None:
            result.append(_merged({}, one))
        else:
            result[at] = _merged(result[at], one)
    return result


def _items(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list | tuple):
        return []
    return [one for one in value if isinstance(one, Mapping)]


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _gives_more(context: object) -> bool:
    if not isinstance(context, Mapping):
        return False
    return bool(
        context.get("privileged")
        or context.get("allowPrivilegeEscalation")
        or _object(context.get("capabilities")).get("add")
        or context.get("runAsUser") == 0
        or context.get("runAsNonRoot") is False
        or context.get("procMount") not in (None, "Default")
        or _object(context.get("seccompProfile")).get("type") == "Unconfined"
    )


def _directives(value: object, place: str) -> Iterator[Fault]:
    """`$patch` and the like replace or delete past every rule here."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if str(key).startswith("$"):
                yield f"{place}{key}", "Directives are not known here: null takes a field away."
            yield from _directives(one, f"{place}{key}.")
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from _directives(one, f"{place}{number}.")
