"""A cluster to which model files come, each way, and what others than Slipway do there for it."""

from dataclasses import replace
from typing import Any

from clusters.backends.base import ModelFile, ModelVersion
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.files.storage import DEFAULT_CLASS
from clusters.backends.kubernetes.settings import KubernetesSettings
from common.fence import Fence
from kube.client import KubeClient
from kube.fake.kinds import BUILT_IN
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport
from kube.fake.wire import ADMIN
from kube.resources import DEPLOYMENTS, JOBS, PODS, Ref, Resource
from model_store.fetch_progress import FetchProgress
from tests.clusters.kubernetes.test_manifests import SPEC
from tests.kube.accounts import grant

GB = 10**9
DIGEST = SPEC.version.digest
NAME = f"slipway-files-{DIGEST[:20]}"
STORE_URL = "https://slipway.example"
STORY = replace(
    SPEC,
    version=ModelVersion(
        id=7, label="parrot:v2", digest=DIGEST, files=(ModelFile("model.safetensors", 15 * GB, "cd" * 32),)
    ),
)


class FilesWorld:
    def __init__(self, **settings: Any) -> None:
        self.settings = KubernetesSettings.read({"store_url": STORE_URL} | settings)
        self.server = FakeApiServer(kinds=BUILT_IN)
        self.server.make("namespaces", {"metadata": {"name": "slipway"}})
        self.client = KubeClient(FakeTransport(self.server, user=ADMIN))
        self.user = grant(self.server)
        self.cluster, self.transport = self.writer()

    def writer(self) -> tuple[KubernetesCluster, FakeTransport]:
        transport = FakeTransport(self.server, user=self.user)
        return KubernetesCluster(KubeClient(transport), self.settings), transport

    def apply(self, *, turn: int = 1, spec: Any = STORY) -> None:
        self.cluster.apply(spec, fence=Fence(1, turn))

    def storage_class(self, name: str, provisioner: str, *, is_default: bool = False) -> None:
        annotations = {DEFAULT_CLASS: "true"} if is_default else {}
        metadata = {"name": name, "annotations": annotations}
        document = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": provisioner}
        self.client.create(document | {"metadata": metadata})

    def enforce(self, level: str) -> None:
        labels = {"pod-security.kubernetes.io/enforce": level}
        self.client.patch(Ref(_NAMESPACES, "slipway"), {"metadata": {"labels": labels}})

    def items(self, resource: Resource) -> list[dict[str, Any]]:
        return list(self.client.list(resource, namespace="slipway").items)

    def pod_spec(self) -> dict[str, Any]:
        (deployment,) = self.items(DEPLOYMENTS)
        found: dict[str, Any] = deployment["spec"]["template"]["spec"]
        return found

    def models_volume(self) -> dict[str, Any]:
        return next(one for one in self.pod_spec()["volumes"] if one["name"] == "models")

    def job_pod(self, *, phase: str = "Running", exit_code: int | None = None, said: str = "") -> str:
        """The pod that a Job's controller makes, as it stands."""
        (job,) = self.items(JOBS)
        name = f"{job['metadata']['name']}-{len(self.items(PODS))}"
        labels = {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
        self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "slipway", "labels": labels},
                "spec": job["spec"]["template"]["spec"] | {"nodeName": "cpu-1"},
            }
        )
        state: dict[str, Any] = {"running": {"startedAt": "2026-11-22T08:00:00Z"}}
        if exit_code is not None:
            state = {"terminated": {"exitCode": exit_code, "reason": "Error", "message": said}}
        container = {"name": "model-files", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        status = {
            "phase": phase,
            "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [container | {"state": state}],
        }
        self.client.patch(Ref(PODS, name, "slipway"), {"status": status}, subresource="status")
        return name

    def fetched(self, pod: str, come_bytes: int, rate: int) -> None:
        line = FetchProgress("parrot:v2", come_bytes, 15 * GB, rate).line()
        self.server.logs["slipway", pod, "model-files"] = f"{line}\n"

    def end_job(self, kind: str, *, message: str = "", at: str = "2026-11-22T08:00:00Z") -> None:
        (job,) = self.items(JOBS)
        condition = {"type": kind, "status": "True", "reason": kind, "message": message}
        moments = {"lastProbeTime": at, "lastTransitionTime": at}
        ref = Ref(JOBS, job["metadata"]["name"], "slipway")
        conditions = [condition | moments]
        if kind == "Complete":
            conditions.insert(0, condition | moments | {"type": "SuccessCriteriaMet"})
            done = {"completionTime": at, "startTime": at, "succeeded": 1}
        else:
            conditions.insert(0, condition | moments | {"type": "FailureTarget"})
            done = {"startTime": at, "failed": 5}
        self.client.patch(ref, {"status": done | {"conditions": conditions}}, subresource="status")


_NAMESPACES = Resource("", "v1", "Namespace", "namespaces", is_namespaced=False)
