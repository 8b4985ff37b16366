"""Patches of the pod template: their limits, and how they are merged."""

from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.base import CannotRun
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.kubernetes.template_patch import ALLOWANCES, patch_faults, patched
from tests.clusters.kubernetes.test_manifests import SETTINGS, SPEC, objects, pod

pytestmark = pytest.mark.any_database
SIDECAR = {"name": "proxy", "image": f"registry.example/proxy@sha256:{'1' * 64}"}


def worker(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "worker", **fields}]}}


@pytest.mark.parametrize(
    ("patch", "place"),
    [
        ({"kind": "Pod"}, "kind"),
        (
            {"metadata": {"labels": {"slipway.io/deployment": "other"}}},
            "metadata.labels.slipway.io/deployment",
        ),
        (
            {"metadata": {"annotations": {"slipway.io/fence": None}}},
            "metadata.annotations.slipway.io/fence",
        ),
        (
            {"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}},
            "metadata.labels.app.kubernetes.io/instance",
        ),
        ({"metadata": {"ownerReferences": []}}, "metadata.ownerReferences"),
        ({"spec": {"terminationGracePeriodSeconds": 1}}, "spec.terminationGracePeriodSeconds"),
        ({"spec": {"nodeName": "gpu-1"}}, "spec.nodeName"),
        ({"spec": {"containers": None}}, "spec.containers"),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers.0"),
        ({"spec": {"hostNetwork": True}}, "spec.hostNetwork"),
        ({"spec": {"serviceAccountName": "admin"}}, "spec.serviceAccountName"),
        (worker(command=["sh"]), "spec.containers.worker.command"),
        (worker(image="x"), "spec.containers.worker.image"),
        (worker(ports=[]), "spec.containers.worker.ports"),
        (worker(readinessProbe=None), "spec.containers.worker.readinessProbe"),
        (worker(env=None), "spec.containers.worker.env"),
        (worker(env=[{"name": "POD_IP", "value": "1"}]), "spec.containers.worker.env.POD_IP"),
        (worker(volumeMounts=[{"name": "x", "mountPath": "/models"}]), "spec.containers.worker.volumeMounts"),
        (worker(securityContext={}), "spec.containers.worker.securityContext"),
        (
            worker(
                env=[{"name": "T", "valueFrom": {"secretKeyRef": {"name": "slipway-store", "key": "token"}}}]
            ),
            "spec.containers.worker.env.T",
        ),
        (
            {"spec": {"initContainers": [{"name": "model-files", "env": []}]}},
            "spec.initContainers.model-files.env",
        ),
        (
            {"spec": {"containers": [{"name": "proxy", "image": "proxy:latest"}]}},
            "spec.containers.proxy.image",
        ),
        (
            {"spec": {"containers": [SIDECAR | {"securityContext": {"privileged": True}}]}},
            "spec.containers.proxy.securityContext",
        ),
        (
            {"spec": {"containers": [SIDECAR | {"volumeMounts": [{"name": "models", "mountPath": "/m"}]}]}},
            "spec.containers.proxy.volumeMounts",
        ),
        ({"spec": {"volumes": [{"name": "models", "emptyDir": {}}]}}, "spec.volumes.models"),
        ({"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}}, "spec.volumes.root"),
        ({"spec": {"volumes": [{"name": "s", "secret": {"secretName": "slipway-store"}}]}}, "spec.volumes.s"),
        ({"spec": {"volumes": [{"name": "n", "nfs": {"server": "x"}}]}}, "spec.volumes.n.nfs"),
        ({"spec": {"$patch": "replace"}}, "spec.$patch"),
        (
            {"spec": {"volumes": ["x"], "containers": [{"name": "p", "env": [{"valueFrom": 1}]}]}},
            "spec.volumes.0",
        ),
        ([], ""),
    ],
)
def test_what_is_not_the_users_to_change_is_refused_at_its_place(patch: Any, place: str) -> None:
    assert place in patch_faults(patch)


def test_a_patch_may_ask_for_a_checkpoint_before_eviction() -> None:
    assert patch_faults({"metadata": {"annotations": {"slipway.io/checkpoint": "sigterm"}}}) == {}


def test_whoever_operates_the_cluster_can_allow_more() -> None:
    patch = {
        "spec": {
            "hostNetwork": True,
            "serviceAccountName": "rdma",
            "securityContext": {"supplementalGroups": [44]},
            "volumes": [{"name": "dev", "hostPath": {"path": "/dev/infiniband"}}],
        }
    }
    assert len(patch_faults(patch)) == 4
    assert patch_faults(patch, allows=ALLOWANCES) == {}
    with pytest.raises(CannotRun, match="patch_allows of its settings"):
        objects(replace(SPEC, pod_patch=patch))
    settings = KubernetesSettings.read({"store_url": "https://s.example", "patch_allows": list(ALLOWANCES)})
    assert pod(replace(SPEC, pod_patch=patch), settings)["hostNetwork"] is True


def test_lists_of_things_with_names_are_merged_and_null_takes_away() -> None:
    template = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {
            "containers": [
                {"name": "worker", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
            ],
            "nodeSelector": {"pool": "a", "zone": "b"},
            "tolerations": [{"operator": "Exists"}],
        },
    }
    patch = {
        "metadata": {"labels": {"team": "x"}},
        "spec": {
            "containers": [
                {"name": "worker", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
                SIDECAR,
            ],
            "nodeSelector": {"zone": None},
            "tolerations": [{"key": "x", "operator": "Exists"}],
        },
    }
    found = patched(template, patch)
    assert found["metadata"]["labels"] == {"a": "1", "team": "x"}
    first, second = found["spec"]["containers"]
    assert [(one["name"], one["value"]) for one in first["env"]] == [("A", "1"), ("B", "3"), ("C", "4")]
    assert second == SIDECAR
    assert found["spec"]["nodeSelector"] == {"pool": "a"}
    assert found["spec"]["tolerations"] == [{"key": "x", "operator": "Exists"}]
    assert template["spec"]["nodeSelector"] == {"pool": "a", "zone": "b"}


def test_a_patched_pod_keeps_all_that_is_slipways() -> None:
    patch = {
        "metadata": {"labels": {"team": "x"}},
        "spec": {
            "schedulerName": "volcano",
            "containers": [SIDECAR, {"name": "worker", "resources": {"limits": {"rdma/hca": "1"}}}],
        },
    }
    assert patch_faults(patch) == {}
    before, after = (objects(replace(SPEC, pod_patch=one))["Deployment"]["spec"] for one in ({}, patch))
    assert after["selector"] == before["selector"]
    template = after["template"]
    assert before["template"]["metadata"]["labels"].items() <= template["metadata"]["labels"].items()
    (ours, other) = template["spec"]["containers"]
    assert ours["command"] == before["template"]["spec"]["containers"][0]["command"]
    assert ours["resources"]["limits"] == {"memory": "1073741824", "nvidia.com/gpu": "1", "rdma/hca": "1"}
    assert (other["name"], template["spec"]["schedulerName"]) == ("proxy", "volcano")
    assert SETTINGS.patch_allows == ()
