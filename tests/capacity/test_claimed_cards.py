"""Cards that pods claim in parts (DRA): seen with what they hold, planned around it, by templates alone."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from capacity import services
from capacity.errors import InvalidPool
from capacity.ledger import ledger_of
from capacity.models import CardLayout
from capacity.reconcilers import CardLayoutReconciler
from clusters.backends.placement import Resources
from clusters.candidates import candidates
from clusters.machine_facts import machine_facts
from clusters.models import Cluster, Drain, Node
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.reconcilers.drains import DrainReconciler
from clusters.reconcilers.nodes import NodeReconciler
from common.fence import Fence
from kube.fake.cluster import node
from kube.fake.mig_devices import mig_classes, mig_slices
from kube.resources import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.capacity.test_cards import BERT, LLAMA
from tests.cast import SYSTEM, api, client_of, person, team
from tests.contracts.cluster_rigs import KubernetesRig, wish
from tests.crash.harness import Clock, worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.any_database]


class Claimed:
    """A machine of two H100s in Kubernetes whose DRA driver divides them, in a pool by its label."""

    def __init__(self) -> None:
        self.clock = Clock(timezone.now())
        self.rig = KubernetesRig()
        self.rig.server.advance(2)
        bare = node("gpu-0")
        (seen,) = self.rig.cluster.client.list(NODES).items
        status = seen["status"] | {key: bare["status"][key] for key in ("capacity", "allocatable")}
        self.rig.server.plant("nodes", seen | {"status": status})
        for one in mig_classes():
            self.rig.server.make("deviceclasses.resource.k8s.io", one)
        for one in mig_slices("gpu-0", cards=2):
            self.rig.server.make("resourceslices.resource.k8s.io", one)
        self.rig.label("pool", "small")
        self.cluster = Cluster.objects.create(name="far", kind="kubernetes", next_at=self.clock())
        self.pass_(4)
        self.pool = services.create_pool(
            actor=SYSTEM, team=team("vision"), name="small", cluster=self.cluster, kind="small_jobs",
            selector={"pool": "small"},
        )  # fmt: skip

    def pass_(self, seconds: int) -> None:
        def backend(_cluster: Cluster) -> Any:
            return self.rig.cluster

        kernel = worker(
            [
                ClusterReconciler(backend, lambda _: {}, lambda _: None), NodeReconciler(backend),
                DrainReconciler(backend), CardLayoutReconciler(backend),
            ],
            self.clock,
        )  # fmt: skip
        for _ in range(seconds):
            kernel.sweep()
            self.rig.server.advance(1)
            self.clock.pass_(timedelta(seconds=1))

    def count(self) -> None:
        """Half a minute later pods and claims are counted anew."""
        self.clock.pass_(timedelta(seconds=40))
        Cluster.objects.update(next_at=self.clock())
        self.pass_(3)

    def set(self, *needs: dict[str, Any], **more: Any) -> CardLayout:
        return services.set_layout(self.pool, actor=SYSTEM, machine="gpu-0", needs=needs, **more)

    def templates(self) -> dict[str, str]:
        found = self.rig.cluster.client.list(RESOURCE_CLAIM_TEMPLATES).items
        return {
            one["metadata"]["name"]: one["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"][0][
                "cel"
            ]["expression"]
            for one in found
        }

    def serve(self, resource: str, replicas: int = 1, name: str = "chat-v1") -> None:
        """A deployment of ours asks for it."""
        resources = Resources(gpu_resource=resource)
        asked = wish(name=name, device="cuda", replicas=replicas, resources=resources)
        self.rig.cluster.apply(asked, fence=Fence(1, 1))
        self.rig.server.advance(10)

    def free(self) -> int:
        """Whole cards that workloads of pools may have."""
        (machine,) = ledger_of(self.cluster).machines
        return len(machine.free)

    def devices(self) -> list[str]:
        claims = self.rig.cluster.client.list(RESOURCE_CLAIMS).items
        return sorted(
            one["device"]
            for claim in claims
            for one in (claim.get("status") or {}).get("allocation", {}).get("devices", {}).get("results", ())
        )


@pytest.fixture
def claimed() -> Claimed:
    return Claimed()


def test_a_layout_is_templates_and_drains_nothing(claimed: Claimed) -> None:
    row = claimed.set(BERT, LLAMA)
    assert (row.config, row.card, [one["profile"] for one in row.instances]) == (
        "claims", None, ["3g.40gb", "1g.10gb"],
    )  # fmt: skip
    claimed.pass_(6)
    row.refresh_from_db()
    assert (row.state, row.problem) == ("applied", "")
    assert claimed.templates() == {
        f"llama-pool-{claimed.pool.pk}-0": "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'",
        f"bert-pool-{claimed.pool.pk}-1": "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'",
    }
    assert not Drain.objects.exists()
    assert not Node.objects.get().is_cordoned

    back = services.undo_layout(row, actor=SYSTEM)
    claimed.pass_(6)
    back.refresh_from_db()
    assert (back.state, claimed.templates()) == ("applied", {})


def test_workers_of_a_service_claim_their_slices_and_the_page_shows_who_has_which(claimed: Claimed) -> None:
    claimed.serve("mig.nvidia.com/3g.40gb", replicas=3)
    assert claimed.devices() == [
        "gpu-0-mig-3g40gb-9-0", "gpu-0-mig-3g40gb-9-4", "gpu-1-mig-3g40gb-9-0",
    ]  # fmt: skip
    claimed.count()
    first, second = (
        api(person("dina", vision="developer"))
        .get(f"capacity/pools/{claimed.pool.pk}/cards/")
        .json()["cards"]
    )
    assert (first["way"], first["model"]) == ("claims", "NVIDIA H100 80GB HBM3")
    assert [one["profile"] for one in first["instances"]] == ["3g.40gb", "3g.40gb"]
    assert "chat-v1" in first["instances"][0]["name"]
    assert claimed.free() == 0, "no card is whole any more"
    assert (first["room"]["1g.10gb"], second["room"]["1g.10gb"], second["room"]["3g.40gb"]) == (0, 3, 1)
    page = client_of(person("ada", vision="approver")).get(f"/capacity/{claimed.pool.pk}/cards/")
    assert "3 x 1g.10gb" in page.content.decode()


def test_a_plan_goes_around_what_pods_hold_and_says_when_there_is_no_room(claimed: Claimed) -> None:
    claimed.serve("mig.nvidia.com/3g.40gb", replicas=3)
    claimed.count()
    big = {**LLAMA, "name": "other"}
    (placed,) = claimed.set(big, dry_run=True).instances
    assert (placed["profile"], placed["begin"]) == ("3g.40gb", 4), "card 1 has room behind the third worker"
    with pytest.raises(InvalidPool) as refused:
        claimed.set(big, card=0, dry_run=True)
    assert "needs" in refused.value.fields
    with pytest.raises(InvalidPool) as refused:
        claimed.set(LLAMA, big, dry_run=True)
    assert "needs" in refused.value.fields
    with pytest.raises(InvalidPool) as refused:
        claimed.set(BERT, sharing="mps")
    assert "sharing" in refused.value.fields


def test_a_template_of_a_named_card_leads_pods_to_that_card_alone(claimed: Claimed) -> None:
    row = claimed.set(BERT, card=1)
    claimed.pass_(6)
    (name,) = claimed.templates()
    assert name == row.instances[0]["template"]
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine", "namespace": "slipway"},
        "spec": {
            "containers": [
                {"name": "main", "image": "registry.example/x", "resources": {"claims": [{"name": "gpu"}]}}
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
        },
    }  # fmt: skip
    claimed.rig.cluster.client.create(pod)
    claimed.rig.server.advance(5)
    assert claimed.devices() == ["gpu-1-mig-1g10gb-19-0"]


def test_a_card_that_a_pod_holds_whole_is_not_divided_and_not_free(claimed: Claimed) -> None:
    claimed.serve("nvidia.com/gpu")
    assert claimed.devices() == ["gpu-0"]
    claimed.count()
    row = claimed.set(BERT, dry_run=True)
    assert row.instances
    with pytest.raises(InvalidPool):
        claimed.set(BERT, card=0, dry_run=True)
    first, _second = (
        api(person("dina", vision="developer"))
        .get(f"capacity/pools/{claimed.pool.pk}/cards/")
        .json()["cards"]
    )
    assert "chat-v1" in first["holder"]
    assert claimed.free() == 1, "workloads get the other one"
    (pod,) = claimed.rig.cluster.client.list(PODS).items
    assert "resourceClaims" not in pod["spec"], "the class maps nvidia.com/gpu"


def test_claims_of_removed_workers_go_with_them(claimed: Claimed) -> None:
    claimed.serve("mig.nvidia.com/1g.10gb")
    assert claimed.templates()
    claimed.rig.cluster.remove("chat-v1", fence=Fence(1, 2))
    claimed.rig.server.advance(90)
    assert (claimed.templates(), claimed.devices()) == ({}, [])


def test_people_plan_claims_on_the_page(claimed: Claimed) -> None:
    browser = client_of(person("ada", vision="approver"))
    page = f"/capacity/{claimed.pool.pk}/cards/"
    sent = {"machine": "gpu-0", "needs": "bert 9000 0.1", "do": "look"}
    shown = browser.post(page, sent).content.decode()
    assert f"resourceClaimTemplateName: bert-pool-{claimed.pool.pk}-0" in shown
    assert browser.post(page, {**sent, "do": "apply"}).status_code == 302
    claimed.pass_(6)
    assert CardLayout.objects.get().state == "applied"
    assert f"bert-pool-{claimed.pool.pk}-0" in claimed.templates()


def test_clusters_and_machines_count_cards_that_are_claimed(claimed: Claimed) -> None:
    """The driver publishes the cards. A whole one is free while nobody has a part of it."""
    ada = api(person("ada", vision="operator"))

    def counted() -> dict[str, tuple[int, int, int]]:
        types = ada.get("clusters/far/capacity/").json()["types"]
        return {one["gpu_type"]: (one["total"], one["ours"], one["free"]) for one in types}

    claimed.count()
    assert counted()["NVIDIA H100 80GB HBM3"] == (2, 0, 2)
    assert counted()["NVIDIA H100 80GB HBM3 MIG 3g.40gb"] == (4, 0, 4)

    claimed.serve("mig.nvidia.com/3g.40gb")
    claimed.serve("nvidia.com/gpu", name="code-v1")
    claimed.count()
    assert counted()["NVIDIA H100 80GB HBM3"] == (2, 2, 0)
    assert counted()["NVIDIA H100 80GB HBM3 MIG 3g.40gb"] == (2, 1, 1)
    (machine,) = machine_facts(SYSTEM).values()
    assert (machine.short_type, machine.gpus, machine.used, machine.free) == ("H100 80GB HBM3", 2, 2, 0)
    (offered,) = candidates(claimed.pool.team)
    assert {one.resource: one.free for one in offered.gpus}["mig.nvidia.com/3g.40gb"] == 1


def test_cards_that_a_driver_offers_whole_alone_are_counted(claimed: Claimed) -> None:
    for one in mig_slices("gpu-0", cards=2):
        devices = [device for device in one["spec"].pop("devices", []) if "-mig-" not in device["name"]]
        for device in devices:
            device.pop("consumesCounters")
        one["spec"] |= {"devices": devices, "pool": {**one["spec"]["pool"], "generation": 2}}
        one["spec"].pop("sharedCounters", None)
        one["metadata"]["name"] += "-whole"
        claimed.rig.server.make("resourceslices.resource.k8s.io", one)
    claimed.count()
    types = api(person("ada", vision="operator")).get("clusters/far/capacity/").json()["types"]
    assert [(one["resource"], one["total"], one["free"]) for one in types] == [("nvidia.com/gpu", 2, 2)]
    assert claimed.free() == 2
