"""Objects that are applied to a Kubernetes cluster for a deployment."""

import json
from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.base import (
    CannotRun,
    DeploymentSpec,
    Misconfigured,
    ModelVersion,
)
from clusters.backends.kubernetes.files.node_cache import NodeCacheDelivery
from clusters.backends.kubernetes.manifests import fence_of, objects_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.placement import Placement, Resources, Spread, TaintEffect, Toleration
from common.fence import Fence
from serving.fetch.__main__ import command_line as fetch_command_line
from serving.worker_command import WorkerCommand

SETTINGS = KubernetesSettings(store_url="https://slipway.example")
SPEC = DeploymentSpec(
    name="chat-v2-0",
    service="chat",
    version=ModelVersion(id=7, label="parrot:v2", digest="ab" * 32),
    engine="transformers",
    replicas=2,
    image=f"registry.example/worker@sha256:{'0' * 64}",
    resources=Resources(gpus=1, cpus=2.5, memory_bytes=2**30),
)


def objects(
    spec: DeploymentSpec = SPEC, settings: KubernetesSettings = SETTINGS
) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in made(spec, settings)}


def made(spec: DeploymentSpec, settings: KubernetesSettings) -> list[dict[str, Any]]:
    files = NodeCacheDelivery(settings).mount(spec, namespace=settings.namespace)
    return objects_of(spec, fence=Fence(3, 9), settings=settings, files=files)


def pod(spec: DeploymentSpec = SPEC, settings: KubernetesSettings = SETTINGS) -> dict[str, Any]:
    found: dict[str, Any] = objects(spec, settings)["Deployment"]["spec"]["template"]["spec"]
    return found


def worker(spec: DeploymentSpec = SPEC) -> dict[str, Any]:
    found: dict[str, Any] = pod(spec)["containers"][0]
    return found


def test_everything_carries_the_fence_and_can_be_found_by_its_labels() -> None:
    found = objects()
    assert list(found) == ["Service", "PodDisruptionBudget", "Deployment"]
    for document in found.values():
        assert fence_of(document) == Fence(3, 9)
        assert document["metadata"]["namespace"] == "slipway"
        assert document["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "slipway"
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        found["Deployment"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_a_users_label_does_not_take_a_worker_out_of_its_selector() -> None:
    found = objects(replace(SPEC, labels={"slipway.io/deployment": "another", "cost-centre": "42"}))
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert labels["slipway.io/deployment"] == "chat-v2-0"
    assert labels["cost-centre"] == "42"


def test_the_worker_is_started_as_everywhere_and_told_its_pods_name() -> None:
    command = worker()["command"]
    assert "--name=$(POD_NAME)" in command
    assert "--address=$(POD_IP)" in command
    plain = [argument.replace("$(", "").replace(")", "") for argument in command]
    assert WorkerCommand.parse(plain[3:]).version_label == "parrot:v2"


def test_what_looks_like_a_variable_in_an_engines_settings_stays_what_it_is() -> None:
    command = worker(replace(SPEC, settings={"template": "$(POD_IP)"}))["command"]
    assert any('"$$(POD_IP)"' in argument for argument in command)


def test_memory_and_gpus_are_limits_and_processors_are_not() -> None:
    assert worker()["resources"] == {
        "requests": {"cpu": "2500m", "memory": "1073741824", "nvidia.com/gpu": "1"},
        "limits": {"memory": "1073741824", "nvidia.com/gpu": "1"},
    }
    assert "nvidia.com/gpu" not in worker(replace(SPEC, device="cpu"))["resources"]["requests"]
    slice_ = "nvidia.com/mig-1g.10gb"
    cut = worker(replace(SPEC, resources=Resources(gpus=1, gpu_resource=slice_)))
    assert cut["resources"] == {"requests": {slice_: "1"}, "limits": {slice_: "1"}}


def test_a_drain_has_the_time_that_the_worker_gives_itself() -> None:
    assert pod(replace(SPEC, grace_seconds=60))["terminationGracePeriodSeconds"] >= 65


def test_a_slow_load_is_not_killed_and_a_busy_worker_neither() -> None:
    container = worker()
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 3_600
    assert "httpGet" not in container["livenessProbe"]


def test_where_workers_stand_is_said_as_kubernetes_says_it() -> None:
    placement = Placement(
        namespace="team-a",
        node_selector={"gpu": "h100"},
        tolerations=(
            Toleration(key="gpu", effect=TaintEffect.NO_SCHEDULE),
            Toleration(key="team", value="a"),
        ),
        spread=(Spread(topology_key="zone", is_required=True),),
        image_pull_secrets=("registry",),
    )
    found = pod(replace(SPEC, placement=placement), replace(SETTINGS, priority_class="serving"))
    assert found["nodeSelector"] == {"gpu": "h100"}
    assert found["tolerations"] == [
        {"operator": "Exists", "key": "gpu", "effect": "NoSchedule"},
        {"operator": "Equal", "key": "team", "value": "a"},
    ]
    assert found["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "DoNotSchedule"
    assert found["imagePullSecrets"] == [{"name": "registry"}]
    assert found["priorityClassName"] == "serving"
    assert objects(replace(SPEC, placement=placement))["Service"]["metadata"]["namespace"] == "team-a"


def test_the_version_is_fetched_into_the_machines_cache() -> None:
    (fetch,) = pod()["initContainers"]
    assert f"--digest={'ab' * 32}" in fetch["command"]
    told = fetch_command_line().parse_args(fetch["command"][3:])
    # Where it puts the version is where the worker's mount looks for it.
    (mount,) = (one for one in pod()["containers"][0]["volumeMounts"] if one["name"] == "models")
    assert mount["subPath"] == f"versions/{told.digest}"
    assert str(told.cache) == fetch["volumeMounts"][0]["mountPath"]


@pytest.mark.parametrize(
    ("spec", "settings", "words"),
    [
        (replace(SPEC, image=""), SETTINGS, "needs an image by digest"),
        (replace(SPEC, image="registry.example/worker:latest"), SETTINGS, "needs an image by digest"),
    ],
)
def test_what_could_not_run_is_refused_before_anything_is_applied(
    spec: DeploymentSpec, settings: KubernetesSettings, words: str
) -> None:
    with pytest.raises(CannotRun, match=words):
        objects(spec, settings)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"namspace": "x"}, "namspace: no such setting"),
        ({"namespace": "Not A Name"}, "namespace: 'Not A Name' cannot be"),
        ({"namespace": ""}, "namespace: name the one"),
        ({"model_files": "magic"}, "model_files: one of auto, claim, node_cache"),
        ({"node_cache_gib": -1}, "node_cache_gib: a number of GiB"),
        ({"node_cache_gib": "much"}, "node_cache_gib: a number of GiB"),
        ({"node_cache": "relative"}, "node_cache: give the absolute path"),
        ({"store_url": "slipway"}, "store_url: give the address"),
        ({"image_pull_secrets": "one"}, "image_pull_secrets: a list"),
        ({"priority_class": 7}, "priority_class: must be a text"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        KubernetesSettings.read(given)


ADAPTED: dict[str, Any] = {"adapters": {"pirate": ModelVersion(id=8, label="pirate:v1", digest="cd" * 32)}}
LORA: dict[str, Any] = {"engine": "vllm", "settings": {"enable-lora": True}}


@pytest.mark.parametrize(
    ("fields", "settings", "fetches"),
    [
        ({}, {}, False),
        (ADAPTED, {}, True),
        (LORA, {}, True),
        (ADAPTED, {"model_files": "claim"}, False),
        (LORA | {"nodes": 2}, {}, False),
    ],
)
def test_a_container_fetches_adapters_where_pods_load_them(
    fields: dict[str, Any], settings: dict[str, Any], fetches: bool
) -> None:
    cluster = KubernetesSettings.read({"store_url": "https://slipway.example", **settings})
    spec = replace(SPEC, **fields)
    listing = [one["metadata"]["name"] for one in made(spec, cluster) if one["kind"] == "ConfigMap"]
    assert listing == (["chat-v2-0.adapters"] if fetches else [])
    (workers,) = (one for one in made(spec, cluster) if one["kind"] in ("Deployment", "LeaderWorkerSet"))
    text = json.dumps(workers)
    assert ("--adapters-file=/adapters/adapters.json" in text) == fetches
    assert ('"name": "adapters"' in text) == fetches
