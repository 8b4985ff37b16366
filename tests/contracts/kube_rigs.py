"""API servers under test: the fake, and the real one that KUBECONFIG names.

On the real one everything is done in namespaces of the test's own, which it deletes.
"""

import os
import uuid
from pathlib import Path
from typing import Protocol

from kube.access import Access
from kube.client import KubeClient
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport
from kube.fake.wire import RequestUser
from kube.kubeconfig import Trust, access_of
from kube.rate import Rate
from kube.resources import NAMESPACES, Ref
from tests.patience import eventually

KUBECONFIG = os.environ.get("KUBECONFIG", "")


class Rig(Protocol):
    client: KubeClient

    def namespace(self) -> str:
        """A new one."""

    def stranger(self) -> KubeClient:
        """The same cluster, with a credential that it does not know."""

    def other_manager(self) -> KubeClient:
        """The same user under another field manager."""

    def forget_history(self) -> bool:
        """Whether it has: a real one cannot be told to."""

    def run_pod(self, namespace: str, name: str, labels: dict[str, str]) -> None:
        """Create another's ready pod on a node."""

    def stop(self) -> None: ...


def pod(namespace: str, name: str, labels: dict[str, str], node: str = "") -> dict[str, object]:
    spec: dict[str, object] = {"containers": [{"name": "main", "image": "registry.example/none:1"}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
}


class FakeRig:
    def __init__(self) -> None:
        self.server = FakeApiServer()
        self.client = KubeClient(FakeTransport(self.server), page_items=3)

    def namespace(self) -> str:
        name = f"slipway-{uuid.uuid4().hex[:8]}"
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    def stranger(self) -> KubeClient:
        return KubeClient(FakeTransport(self.server, user=RequestUser("")))

    def other_manager(self) -> KubeClient:
        return KubeClient(FakeTransport(self.server), field_manager="somebody-else")

    def forget_history(self) -> bool:
        self.server.storage.compact()
        return True

    def run_pod(self, namespace: str, name: str, labels: dict[str, str]) -> None:
        run_pod(self.client, namespace, name, labels)

    def stop(self) -> None:
        pass


class RealRig:
    def __init__(self) -> None:
        self.access: Access = access_of(Path(KUBECONFIG).read_text(), trust=Trust(files=True))
        self.client = self._client(self.access)
        self._namespaces: list[str] = []

    def _client(self, access: Access, field_manager: str = "slipway") -> KubeClient:
        from kube.real.transport import RealTransport

        transport = RealTransport(access, rate=Rate(per_second=200, burst=200))
        return KubeClient(transport, field_manager=field_manager, page_items=3)

    def namespace(self) -> str:
        name = f"slipway-{uuid.uuid4().hex[:8]}"
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._namespaces.append(name)
        # Where controllers run, pods need the account that one of them makes.
        self.client.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name},
            }
        )
        return name

    def stranger(self) -> KubeClient:
        from dataclasses import replace

        from kube.access import FixedToken

        return self._client(replace(self.access, token=FixedToken("unknown"), certificate_pem="", key_pem=""))

    def other_manager(self) -> KubeClient:
        return self._client(self.access, "somebody-else")

    def forget_history(self) -> bool:
        return False

    def run_pod(self, namespace: str, name: str, labels: dict[str, str]) -> None:
        run_pod(self.client, namespace, name, labels)

    def stop(self) -> None:
        for name in self._namespaces:
            self.client.delete(Ref(NAMESPACES, name))
        self.client.close()


def run_pod(client: KubeClient, namespace: str, name: str, labels: dict[str, str]) -> None:
    """On a node that is not there, so that no kubelet has a say; its status is what we write."""
    from kube.resources import PODS

    client.create(pod(namespace, name, labels, node="nowhere"))
    ref = Ref(PODS, name, namespace)
    client.patch(ref, {"status": READY}, subresource="status")
    eventually(lambda: client.get(ref)["status"]["phase"] == "Running")
