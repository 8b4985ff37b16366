"""What `deploy/` gives a cluster: accepted as it stands, confined, and about what is there."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.fake.cluster import SimulatedCluster, node
from kube.fake.transport import FakeTransport
from kube.kubeconfig import Trust, access_of
from kube.real.transport import RealTransport
from kube.transport import ApiCall, Transport
from tests.deploy.kustomize import Document, containers, path_of, pod_spec, render


def made(transport: Transport, document: Document, **query: str) -> Document:
    """Return the object as the API server answers; the server must know every field."""
    body, strict = json.dumps(document).encode(), {"fieldValidation": "Strict"}
    headers = {"content-type": "application/json"}
    reply = transport.send(ApiCall("POST", path_of(document), strict | query, headers, body))
    assert reply.status == 201, (document["kind"], document["metadata"]["name"], reply.body.decode())
    answer: Document = json.loads(reply.body)
    return answer


def by_kind(documents: list[Document], kind: str) -> dict[str, Document]:
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}


def with_namespace(documents: list[Document]) -> list[Document]:
    """The relay goes into one that is there."""
    name = documents[0]["metadata"].get("namespace")
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return documents if by_kind(documents, "Namespace") else [made, *documents]


def test_an_api_server_takes_every_document_and_every_field(documents: list[Document]) -> None:
    transport = FakeTransport(SimulatedCluster())
    for document in with_namespace(documents):
        made(transport, document)


def test_a_field_that_does_not_exist_is_noticed(documents: list[Document]) -> None:
    """The check before this one could not fail otherwise."""
    transport = FakeTransport(SimulatedCluster())
    workload = next((one for one in documents if pod_spec(one)), None)
    if workload is None:
        pytest.skip("These documents run no pods.")
    made(transport, next(one for one in with_namespace(documents) if one["kind"] == "Namespace"))
    workload["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(AssertionError, match="readinesProbe"):
        made(transport, workload)


def test_they_run_where_a_quota_counts_everything(control_plane: list[Document]) -> None:
    cluster = SimulatedCluster(nodes=[node(f"n{number}", cpu="8", memory="32Gi") for number in range(3)])
    transport = FakeTransport(cluster)
    hard = {"requests.cpu": "4", "requests.memory": "8Gi", "limits.memory": "20Gi", "pods": "20"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": hard}}
    quota["metadata"] = {"name": "all", "namespace": "slipway-system"}
    for document in control_plane:
        made(transport, document)
        if document["kind"] == "Namespace":
            made(transport, quota)
    cluster.advance(60)
    reply = transport.send(ApiCall("GET", "/apis/apps/v1/namespaces/slipway-system/deployments"))
    seen = {one["metadata"]["name"]: one["status"] for one in json.loads(reply.body)["items"]}
    assert seen.keys() == {"slipway-web", "slipway-worker", "slipway-sweeper"}
    for name, status in seen.items():
        assert status.get("readyReplicas", 0) == status["replicas"] >= 1, (name, status)


def test_every_pod_is_confined_as_the_restricted_standard_wants(control_plane: list[Document]) -> None:
    """Pod Security Standards of Kubernetes, "restricted"; and a file system that nobody writes to."""
    specs = [(one["metadata"]["name"], spec) for one in control_plane if (spec := pod_spec(one))]
    assert len(specs) == 4
    for name, spec in specs:
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["runAsUser"] == 10_001, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["automountServiceAccountToken"] is False, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        for volume in spec["volumes"]:
            assert volume.keys() - {"name"} <= {"emptyDir", "ephemeral", "persistentVolumeClaim"}, name
        for container in containers(spec):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
            assert "memory" in container["resources"]["limits"], name


def test_what_selects_selects_something(control_plane: list[Document]) -> None:
    workloads = {
        name: one for kind in ("Deployment", "Job") for name, one in by_kind(control_plane, kind).items()
    }
    labels = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in workloads.items()}

    def chosen(wanted: dict[str, str]) -> set[str]:
        return {name for name, has in labels.items() if wanted.items() <= has.items()}

    for name, one in by_kind(control_plane, "Deployment").items():
        assert chosen(one["spec"]["selector"]["matchLabels"]) == {name}
        assert chosen(
            by_kind(control_plane, "PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"]
        ) == {name}
        for spread in one["spec"]["template"]["spec"]["topologySpreadConstraints"]:
            assert chosen(spread["labelSelector"]["matchLabels"]) == {name}
    for name, one in by_kind(control_plane, "HorizontalPodAutoscaler").items():
        assert one["spec"]["scaleTargetRef"]["name"] in workloads
        # Two who set one number would take turns at it.
        assert "replicas" not in workloads[name]["spec"]
    (service,) = by_kind(control_plane, "Service").values()
    assert chosen(service["spec"]["selector"]) == {"slipway-web"}
    for one in by_kind(control_plane, "NetworkPolicy").values():
        selector = one["spec"]["podSelector"]
        if "matchLabels" in selector:
            assert chosen(selector["matchLabels"]), one["metadata"]["name"]
        for expression in selector.get("matchExpressions", ()):
            assert set(expression["values"]) <= labels.keys()
    first = by_kind(control_plane, "NetworkPolicy")["default-deny"]["spec"]
    assert first == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_what_comes_first_at_an_upgrade_needs_nothing_that_comes_later(control_plane: list[Document]) -> None:
    first = [
        one for one in control_plane if one["metadata"].get("labels", {}).get("slipway.io/step") == "prepare"
    ]
    assert {"Namespace", "ServiceAccount", "ConfigMap", "Job", "NetworkPolicy"} <= {
        one["kind"] for one in first
    }
    transport = FakeTransport(SimulatedCluster())
    for document in first:
        made(transport, document)
    (job,) = by_kind(first, "Job").values()
    spec = pod_spec(job)
    assert spec is not None
    assert spec["serviceAccountName"] in by_kind(first, "ServiceAccount")
    named = [
        source["configMapRef"]["name"]
        for source in spec["containers"][0]["envFrom"]
        if "configMapRef" in source
    ]
    assert set(named) <= by_kind(first, "ConfigMap").keys()


def test_one_image_runs_all_roles_and_is_named_by_the_overlay(control_plane: list[Document]) -> None:
    images = {
        one["image"]
        for document in control_plane
        for one in containers(pod_spec(document) or {"containers": []})
    }
    (image,) = images
    assert ":" in image.rpartition("/")[2]


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl to compare with")
def test_it_is_what_kubectl_makes_of_it(directory: Path) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(directory)], capture_output=True, check=True, timeout=60
    )

    def sorted_by_name(documents: list[Any]) -> list[Document]:
        return sorted(documents, key=lambda one: (one["kind"], one["metadata"]["name"]))

    theirs = list(yaml.safe_load_all(done.stdout.decode()))
    assert sorted_by_name(render(directory)) == sorted_by_name(theirs)


@pytest.fixture
def real() -> Iterator[tuple[Transport, str]]:
    """The API server that KUBECONFIG names, and a namespace of the test's own there."""
    if not (file := os.environ.get("KUBECONFIG", "")):
        pytest.skip("no API server: KUBECONFIG is not set")
    transport = RealTransport(access_of(Path(file).read_text(), trust=Trust(files=True)))
    name = f"slipway-deploy-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    made(transport, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    try:
        yield transport, name
    finally:
        transport.send(ApiCall("DELETE", f"/api/v1/namespaces/{name}"))
        transport.close()


def test_a_real_api_server_takes_it_in_a_dry_run_and_its_pods_in_a_restricted_namespace(
    real: tuple[Transport, str], control_plane: list[Document]
) -> None:
    transport, namespace = real
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "slipway", "namespace": namespace},
    }
    made(transport, account)
    for document in control_plane:
        if document["kind"] == "Namespace":
            made(
                transport,
                document | {"metadata": document["metadata"] | {"name": f"{namespace}-2"}},
                dryRun="All",
            )
            continue
        document["metadata"]["namespace"] = namespace
        if document["kind"] != "ServiceAccount":
            made(transport, document, dryRun="All")
        if (spec := pod_spec(document)) is not None:
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": namespace},
                "spec": spec,
            }
            made(transport, pod, dryRun="All")
