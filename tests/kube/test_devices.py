"""The fake's devices: claims of pods are made, allocated within counters, and given back."""

from typing import Any

import pytest

from kube.client import KubeClient
from kube.errors import InvalidObject
from kube.fake.cluster import SimulatedCluster
from kube.fake.machine import node
from kube.fake.mig_devices import mig_classes, mig_slices
from kube.fake.transport import FakeTransport
from kube.fake.wire import ADMIN
from kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Ref

NAMESPACE = "default"


class Devices:
    """A machine with two H100s that a DRA driver offers."""

    def __init__(self) -> None:
        self.server = SimulatedCluster(nodes=[node("gpu-0", uid="n0", cpus=8, gib=64, gpus=0)])
        for one in mig_classes():
            self.server.make("deviceclasses.resource.k8s.io", one)
        for one in mig_slices("gpu-0", cards=2):
            self.server.make("resourceslices.resource.k8s.io", one)
        self.server.advance(1)
        self.client = KubeClient(FakeTransport(self.server, user=ADMIN))

    def template(self, name: str, *profiles: str, same_card: bool = False) -> None:
        def request(number: int, profile: str) -> dict[str, Any]:
            wanted = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
            exactly = {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": wanted}}]}
            return {"name": f"part-{number}", "exactly": exactly}

        devices: dict[str, Any] = {"requests": [request(*one) for one in enumerate(profiles)]}
        if same_card:
            devices["constraints"] = [{"matchAttribute": "gpu.nvidia.com/parentUUID"}]
        self.client.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"spec": {"devices": devices}},
            }
        )

    def pod(self, name: str, template: str = "", gpus: int = 0) -> None:
        container: dict[str, Any] = {"name": "main", "image": "registry.example/x"}
        spec: dict[str, Any] = {"containers": [container]}
        if template:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
            container["resources"] = {"claims": [{"name": "gpu"}]}
        if gpus:
            container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
        metadata = {"name": name, "namespace": NAMESPACE}
        self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        self.server.advance(5)

    def machine_of(self, pod: str) -> str:
        return str(self.client.get(Ref(PODS, pod, NAMESPACE))["spec"].get("nodeName", ""))

    def why(self, pod: str) -> str:
        conditions = self.client.get(Ref(PODS, pod, NAMESPACE))["status"]["conditions"]
        return str(next(one["message"] for one in conditions if one["type"] == "PodScheduled"))

    def held(self) -> dict[str, list[str]]:
        return {
            claim["status"]["reservedFor"][0]["name"]: [
                one["device"] for one in claim["status"]["allocation"]["devices"]["results"]
            ]
            for claim in self.client.list(RESOURCE_CLAIMS).items
            if "allocation" in (claim.get("status") or {})
        }


@pytest.fixture
def devices() -> Devices:
    return Devices()


def test_a_pod_gets_a_part_of_a_card_by_a_claim_of_its_own(devices: Devices) -> None:
    devices.template("small", "1g.10gb")
    devices.pod("one", "small")
    devices.pod("two", "small")
    assert devices.held() == {"one": ["gpu-0-mig-1g10gb-19-0"], "two": ["gpu-0-mig-1g10gb-19-1"]}
    (claim, _other) = devices.client.list(RESOURCE_CLAIMS).items
    assert claim["metadata"]["ownerReferences"][0]["name"] == "one"

    devices.client.delete(Ref(PODS, "one", NAMESPACE))
    devices.server.advance(60)
    assert devices.held() == {"two": ["gpu-0-mig-1g10gb-19-1"]}
    devices.pod("three", "small")
    assert devices.held()["three"] == ["gpu-0-mig-1g10gb-19-0"], "the hole is used again"


def test_counters_keep_parts_and_whole_cards_apart(devices: Devices) -> None:
    devices.template("small", "1g.10gb")
    devices.template("all", "7g.80gb")
    devices.pod("part", "small")
    devices.pod("whole", gpus=1)
    assert devices.held()["whole"] == ["gpu-1"], "one nobody has a part of"
    devices.pod("late", "all")
    assert devices.machine_of("late") == ""
    assert "1 cannot allocate all claims" in devices.why("late")
    devices.client.delete(Ref(PODS, "whole", NAMESPACE))
    devices.server.advance(60)
    assert devices.held()["late"] == ["gpu-1-mig-7g80gb-0-0"]


def test_parts_of_one_claim_may_be_bound_to_one_card(devices: Devices) -> None:
    devices.template("small", "4g.40gb")
    devices.template("pair", "4g.40gb", "3g.40gb", same_card=True)
    devices.pod("first", "small")
    devices.pod("both", "pair")
    assert devices.held()["both"] == ["gpu-1-mig-4g40gb-5-0", "gpu-1-mig-3g40gb-9-4"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"requests": [{"name": "a"}]}, "spec.spec.devices.requests[0]"),
        (
            {"requests": [{"name": "a", "exactly": {"deviceClassName": "c", "count": -1}}]},
            "spec.spec.devices.requests[0].exactly.count",
        ),
        (
            {"requests": [], "constraints": [{"requests": ["b"], "matchAttribute": "d/a"}]},
            "spec.spec.devices.constraints[0].requests[0]",
        ),
    ],
)
def test_templates_that_make_no_sense_are_refused(
    devices: Devices, change: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidObject, match=place.replace("[", r"\[").replace("]", r"\]")):
        devices.client.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": "bad", "namespace": NAMESPACE},
                "spec": {"spec": {"devices": change}},
            }
        )


def test_specs_of_claims_and_templates_never_change(devices: Devices) -> None:
    devices.template("small", "1g.10gb")
    devices.pod("one", "small")
    (claim,) = devices.client.list(RESOURCE_CLAIMS).items
    (template,) = devices.client.list(RESOURCE_CLAIM_TEMPLATES).items
    for item, path in ((claim, {}), (template, {})):
        resource = RESOURCE_CLAIMS if item is claim else RESOURCE_CLAIM_TEMPLATES
        ref = Ref(resource, item["metadata"]["name"], NAMESPACE)
        devices_of = item["spec"]["devices"] if item is claim else item["spec"]["spec"]["devices"]
        changed = {"devices": devices_of | {"requests": []} | path}
        with pytest.raises(InvalidObject, match="immutable"):
            devices.client.patch(ref, {"spec": changed if item is claim else {"spec": changed}})


def test_a_slice_has_either_devices_or_counters(devices: Devices) -> None:
    counters, cards, _more = mig_slices("gpu-0", cards=2)
    cards["metadata"]["name"] = "both"
    cards["spec"]["sharedCounters"] = counters["spec"]["sharedCounters"]
    with pytest.raises(InvalidObject, match="only one of"):
        devices.client.create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **cards})
    assert len(devices.client.list(RESOURCE_SLICES).items) == 3
