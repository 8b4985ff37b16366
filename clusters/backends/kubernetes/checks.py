"""Checks made before a cluster is trusted with work, step by step, with words for each failure."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

from clusters.backends.checks import RIGHT, ClusterCheck
from clusters.backends.gpu_names import is_gpu
from clusters.backends.kubernetes.files.choice import choose, look
from clusters.backends.kubernetes.files.storage import is_default
from clusters.backends.kubernetes.image_loading import loading_words
from clusters.backends.kubernetes.quantities import whole
from clusters.backends.kubernetes.rights import (
    FEATURES,
    NEEDED,
    RIGHTS,
    Feature,
    NeededRight,
    granted_features,
)
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.states import CheckResult
from kube.base import KubernetesClient, Object
from kube.errors import ApiForbidden, BadConfig, KubeError, NotAuthenticated, NotFound
from kube.resources import (
    CONFIG_MAPS,
    GATEWAY_CLASSES,
    INFERENCE_POOLS,
    LEADER_WORKER_SETS,
    NAMESPACES,
    NODES,
    STORAGE_CLASSES,
    Ref,
    Resource,
)
from kube.rules import Rules

OLDEST = (1, 30)
"""Below it, parts of what is applied are dropped: sidecars, pod conditions, and in 1.29 `preStop.sleep`."""
WITHIN_SECONDS = 18.0
"""What has not been begun by then is not looked at: a step of a reconciler has 30."""
NOWHERE = "slipway-nowhere"
"""A namespace that nobody has: what we may do there we may do everywhere."""
KNOWN_KINDS: Sequence[tuple[str, Resource]] = (
    ("Gateway API", Resource("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")),
    ("Inference Extension", INFERENCE_POOLS),
    ("LeaderWorkerSet", LEADER_WORKER_SETS),
    ("Prometheus operator", Resource("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors")),
    ("GPU operator", Resource("nvidia.com", "v1", "ClusterPolicy", "clusterpolicies", is_namespaced=False)),
)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def checks(
    client: KubernetesClient, settings: KubernetesSettings, *, clock: Callable[[], float] = monotonic
) -> tuple[ClusterCheck, ...]:
    """Run all checks that the cluster can answer. One that is unreachable or too old is asked nothing else.
    Never raises.
    """
    until = clock() + WITHIN_SECONDS
    first = _reachable(client)
    if first[-1].result is CheckResult.FAILED:
        return first
    features = features_of(client, settings)
    looks = (*_rights(client, settings, features), *_looks(client, settings))
    rest = (
        _guarded(name, look, is_left_out=Feature.CHECKS not in features)
        if clock() < until
        else ClusterCheck(name, CheckResult.WARNING, "Not looked at: the cluster answers too slowly.")
        for name, look in looks
    )
    return (*first, *rest)


def right_checks(client: KubernetesClient, settings: KubernetesSettings) -> tuple[ClusterCheck, ...]:
    """Run the checks of rights alone: two requests, where all are granted. Raises KubeError."""
    return tuple(look() for _, look in _rights(client, settings, features_of(client, settings)))


def features_of(client: KubernetesClient, settings: KubernetesSettings) -> frozenset[Feature]:
    """Return the features that the cluster's administrator granted; all, where nothing says which."""
    try:
        return granted_features(client.get(Ref(CONFIG_MAPS, FEATURES, settings.namespace)))
    except KubeError:
        return granted_features(None)


def _rights(
    client: KubernetesClient, settings: KubernetesSettings, features: frozenset[Feature]
) -> Iterator[tuple[str, Callable[[], ClusterCheck]]]:
    rules = {place: _rules(client, place or NOWHERE) for place in ("", *settings.all_namespaces)}
    for right in RIGHTS:
        # Only users of the Inference Extension, of Ray and of Kueue need them.
        if right.feature in (Feature.INFERENCE, Feature.GRAPHS, Feature.QUEUES):
            continue
        name = f"{RIGHT}{right.name}"
        if right.feature not in features:
            words = f"Its manifest leaves {right.feature} out. {right.without}"
            yield name, partial(ClusterCheck, name, CheckResult.LEFT_OUT, words)
        else:
            check = _right_of_groups if right.feature is Feature.GROUPS else _right
            yield name, partial(check, client, settings, right, rules)


def _rules(client: KubernetesClient, namespace: str) -> Rules:
    try:
        return client.rules(namespace)
    except KubeError:
        return Rules()


def _looks(
    client: KubernetesClient, settings: KubernetesSettings
) -> Iterator[tuple[str, Callable[[], ClusterCheck]]]:
    for namespace in settings.all_namespaces:
        yield f"namespace {namespace}", partial(_namespace, client, namespace)
    yield "GPUs", partial(_gpus, client)
    yield "gateway classes", partial(_gateway_classes, client)
    yield "storage classes", partial(_storage_classes, client)
    yield "model files", partial(_model_files, client, settings)
    yield "image loading", partial(_image_loading, client, settings)
    yield "extensions", partial(_extensions, client)


def _guarded(name: str, look: Callable[[], ClusterCheck], *, is_left_out: bool) -> ClusterCheck:
    """`is_left_out`: the cluster does not let us look, on purpose."""
    try:
        return look()
    except ApiForbidden as error:
        result = CheckResult.LEFT_OUT if is_left_out else CheckResult.WARNING
        return ClusterCheck(name, result, f"Could not be looked at: {error}")
    except KubeError as error:
        return ClusterCheck(name, CheckResult.WARNING, f"Could not be looked at: {error}")


def _reachable(client: KubernetesClient) -> tuple[ClusterCheck, ...]:
    """Step by step, up to the first that fails."""
    try:
        version = client.version()
    except BadConfig as error:
        return (ClusterCheck("certificate", CheckResult.FAILED, str(error)),)
    except (NotAuthenticated, ApiForbidden) as error:
        # Everybody who is anybody may read the version.
        return (
            ClusterCheck("reachable", CheckResult.PASSED, "It answers."),
            ClusterCheck("credentials", CheckResult.FAILED, f"It does not know who asks: {error}"),
        )
    except KubeError as error:
        return (ClusterCheck("reachable", CheckResult.FAILED, str(error)),)
    reachable = ClusterCheck("reachable", CheckResult.PASSED, "It answers.")
    return (reachable, _version(version))


def _version(said: str) -> ClusterCheck:
    oldest = ".".join(map(str, OLDEST))
    numbers = _VERSION.match(said)
    if not numbers or numbers[1] == "0":
        # One that somebody built without release flags is v0.0.0-master: it may be the newest of all.
        fault = f"It does not say which release it is ({said or 'no version'}): it must be {oldest} or newer."
        return ClusterCheck("version", CheckResult.WARNING, fault)
    if (int(numbers[1]), int(numbers[2])) < OLDEST:
        fault = f"It is Kubernetes {said}; Slipway needs {oldest} or newer."
        return ClusterCheck("version", CheckResult.FAILED, fault)
    return ClusterCheck("version", CheckResult.PASSED, f"Kubernetes {said}.")


def _right(
    client: KubernetesClient, settings: KubernetesSettings, right: NeededRight, rules: Mapping[str, Rules]
) -> ClusterCheck:
    def may(verb: str, place: str, name: str) -> bool:
        about = {"name": name, "subresource": right.subresource}
        # Servers list too few rules rather than too many.
        return (
            rules[place].allow(verb, right.resource, **about)
            or client.may(verb, right.resource, namespace=place, **about).allowed
        )

    places = ("",) if right.is_cluster_wide else settings.all_namespaces
    missing = [
        f"{verb} {right.kind}{f' in {place}' if place else ''}"
        for place in places
        for verb in right.verbs
        if not all(may(verb, place, one) for one in right.names or ("",))
    ]
    name = f"{RIGHT}{right.name}"
    if not missing:
        return ClusterCheck(name, CheckResult.PASSED, f"May {', '.join(right.verbs)} {right.kind}.")
    result = CheckResult.FAILED if right.feature in NEEDED else CheckResult.WARNING
    return ClusterCheck(name, result, f"May not {'; '.join(missing)}. {right.without}")


def _right_of_groups(
    client: KubernetesClient, settings: KubernetesSettings, right: NeededRight, rules: Mapping[str, Rules]
) -> ClusterCheck:
    if client.serves(LEADER_WORKER_SETS):
        return _right(client, settings, right, rules)
    return ClusterCheck(
        f"{RIGHT}{right.name}", CheckResult.PASSED, "Not needed: LeaderWorkerSet is not installed."
    )


def _namespace(client: KubernetesClient, name: str) -> ClusterCheck:
    try:
        found = client.get(Ref(NAMESPACES, name))
    except NotFound:
        return ClusterCheck(
            f"namespace {name}", CheckResult.FAILED, f"There is no namespace {name}: create it first."
        )
    if (found.get("status") or {}).get("phase") == "Terminating":
        return ClusterCheck(
            f"namespace {name}", CheckResult.FAILED, f"The namespace {name} is being deleted."
        )
    level = (found["metadata"].get("labels") or {}).get("pod-security.kubernetes.io/enforce", "")
    rule = f"; it enforces the {level} pod security standard" if level else ""
    return ClusterCheck(f"namespace {name}", CheckResult.PASSED, f"{name} is there{rule}.")


def _gpus(client: KubernetesClient) -> ClusterCheck:
    nodes = client.gather(NODES, keep=_gpus_of).items
    counts: Counter[str] = Counter()
    for gpus in nodes:
        counts.update(gpus)
    found = [f"{count} {resource}" for resource, count in counts.items() if count]
    if not found:
        return ClusterCheck(
            "GPUs",
            CheckResult.WARNING,
            f"None of its {_machines(len(nodes))} offers GPUs: is their device plugin installed?",
        )
    return ClusterCheck("GPUs", CheckResult.PASSED, f"{', '.join(found)} on {_machines(len(nodes))}.")


def _gpus_of(node: Object) -> dict[str, int]:
    capacity: dict[str, Any] = (node.get("status") or {}).get("capacity") or {}
    return {name: whole(count) for name, count in capacity.items() if is_gpu(name)}


def _gateway_classes(client: KubernetesClient) -> ClusterCheck:
    if not client.serves(GATEWAY_CLASSES):
        return ClusterCheck("gateway classes", CheckResult.WARNING, "The Gateway API is not installed.")
    told = []
    for one in client.list(GATEWAY_CLASSES).items:
        # Names, or objects with a name, by the version of the API.
        features = (one.get("status") or {}).get("supportedFeatures") or ()
        names = {feature["name"] if isinstance(feature, dict) else feature for feature in features}
        mirrors = "mirrors requests" if "HTTPRouteRequestMirror" in names else "does not say that it mirrors"
        count = f"{len(names)} supported features" if names else "says nothing of its features"
        controller = one["spec"].get("controllerName", "?")
        told.append(f"{one['metadata']['name']} ({controller}, {count}, {mirrors})")
    if not told:
        return ClusterCheck("gateway classes", CheckResult.WARNING, "There is no gateway class.")
    return ClusterCheck("gateway classes", CheckResult.PASSED, f"{'; '.join(told)}.")


def _storage_classes(client: KubernetesClient) -> ClusterCheck:
    found = client.list(STORAGE_CLASSES).items
    if not found:
        return ClusterCheck(
            "storage classes", CheckResult.WARNING, "There is none: volumes must be made by hand."
        )
    told = [
        f"{one['metadata']['name']} ({one.get('provisioner', '?')}"
        f"{', the default' if is_default(one) else ''})"
        for one in found
    ]
    return ClusterCheck("storage classes", CheckResult.PASSED, f"{', '.join(told)}.")


def _model_files(client: KubernetesClient, settings: KubernetesSettings) -> ClusterCheck:
    """Check how model files are delivered, and why, in each namespace where that differs."""
    choices = {
        namespace: choose(look(client, settings, namespace), settings)
        for namespace in settings.all_namespaces
    }
    words = {namespace: choice.words for namespace, choice in choices.items()}
    if len({*words.values()}) == 1:
        text = words[settings.namespace]
    else:
        text = " ".join(f"{namespace}: {said}" for namespace, said in words.items())
    is_ready = all(choice.is_ready for choice in choices.values())
    return ClusterCheck("model files", CheckResult.PASSED if is_ready else CheckResult.FAILED, text)


def _image_loading(client: KubernetesClient, settings: KubernetesSettings) -> ClusterCheck:
    labels = client.gather(NODES, keep=lambda node: node["metadata"].get("labels") or {}).items
    return ClusterCheck("image loading", CheckResult.PASSED, loading_words(labels, settings.image_loading))


def _extensions(client: KubernetesClient) -> ClusterCheck:
    found = [name for name, resource in KNOWN_KINDS if client.serves(resource)]
    text = f"Installed: {', '.join(found)}." if found else "None of those that Slipway can use is installed."
    if "LeaderWorkerSet" not in found:
        text += " Without LeaderWorkerSet no worker can span machines."
    return ClusterCheck("extensions", CheckResult.PASSED, text)


def _machines(count: int) -> str:
    return f"{count} machine{'' if count == 1 else 's'}"
