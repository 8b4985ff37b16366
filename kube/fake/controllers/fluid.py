"""Fluid: a Dataset with a runtime of its name is bound and has a claim of that name; loads fill its cache."""

from kube.fake.controllers.controller_tools import ControllerTools, Object

DATASETS, LOADS = "datasets.data.fluid.io", "dataloads.data.fluid.io"
RUNTIMES = tuple(f"{one}runtimes.data.fluid.io" for one in ("alluxio", "jindo", "juicefs"))
BIND_SECONDS = 2.0
LOAD_SECONDS = 3.0


def step(hands: ControllerTools) -> None:
    if not hands.has(DATASETS):
        return
    for dataset in hands.all(DATASETS):
        _bind(hands, dataset)
    for load in hands.all(LOADS):
        _load(hands, load)


def _age(hands: ControllerTools, item: Object) -> float:
    return hands.clock.seconds - hands.clock.seconds_of(item["metadata"]["creationTimestamp"])


def _bind(hands: ControllerTools, dataset: Object) -> None:
    metadata, status = dataset["metadata"], dataset.get("status") or {}
    name, namespace = metadata["name"], metadata["namespace"]
    runtimes = [hands.get(one, namespace, name) for one in RUNTIMES]
    runtime = next((one for one in runtimes if one is not None), None)
    if runtime is None:
        if not status:
            hands.set_status(DATASETS, dataset, {"phase": "NotBound", "conditions": []})
        return
    if status.get("phase") == "Bound" or _age(hands, runtime) < BIND_SECONDS:
        return
    if hands.get("persistentvolumeclaims", namespace, name) is None:
        modes = dataset["spec"].get("accessModes") or ["ReadOnlyMany"]
        spec = {"accessModes": modes, "resources": {"requests": {"storage": "100Pi"}}}
        spec |= {"storageClassName": "fluid"}
        claim = hands.create(
            "persistentvolumeclaims",
            {
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec | {"storageClassName": "fluid"},
            },
        )
        hands.set_status("persistentvolumeclaims", claim, {"phase": "Bound", "accessModes": modes})
    now = hands.clock.stamp()
    ready = {"type": "Ready", "status": "True", "reason": "DatasetReady"}
    ready |= {"message": "The ddc runtime is ready.", "lastTransitionTime": now, "lastUpdateTime": now}
    caches = {"cacheCapacity": "10.00GiB", "cached": "0.00B", "cachedPercentage": "0.0%"}
    told = {"phase": "Bound", "conditions": [ready], "cacheStates": caches, "ufsTotal": "1.00GiB"}
    hands.set_status(DATASETS, dataset, told)


def _load(hands: ControllerTools, load: Object) -> None:
    status = load.get("status") or {}
    about = load["spec"]["dataset"]
    dataset = hands.get(DATASETS, about.get("namespace") or load["metadata"]["namespace"], about["name"])
    if status.get("phase") in ("Complete", "Failed"):
        return
    if dataset is None or (dataset.get("status") or {}).get("phase") != "Bound":
        if not status:
            hands.set_status(LOADS, load, {"phase": "Pending", "conditions": [], "duration": "Unfinished"})
        return
    if status.get("phase") != "Executing":
        hands.set_status(LOADS, load, {"phase": "Executing", "conditions": [], "duration": "Unfinished"})
        return
    if _age(hands, load) < LOAD_SECONDS:
        return
    now = hands.clock.stamp()
    done = {"type": "Complete", "status": "True", "reason": "DataLoadJobComplete"}
    done |= {"message": "Data load completed", "lastProbeTime": now, "lastTransitionTime": now}
    duration = f"{_age(hands, load):.0f}s"
    hands.set_status(LOADS, load, {"phase": "Complete", "conditions": [done], "duration": duration})
    caches = dataset["status"]["cacheStates"] | {"cached": "1.00GiB", "cachedPercentage": "100.0%"}
    hands.set_status(DATASETS, dataset, dataset["status"] | {"cacheStates": caches})
