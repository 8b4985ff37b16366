"""Cards are divided by MIG or MPS and made whole again: declared ones, and machines of a fake API server."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from capacity import services
from capacity.errors import InvalidPool, PlanNotOpen
from capacity.ledger import ledger_of
from capacity.models import CardLayout
from capacity.planning.lending import CardGrant
from capacity.reconcilers import CardLayoutReconciler
from capacity.reconcilers.workloads import WorkloadReconciler
from capacity.services.workloads import grant_cards, submit_workload
from clusters.backends.base import ObservedNode
from clusters.backends.fake import FakeClusterBackend
from clusters.backends.fake_workloads import FakeWorkloads
from clusters.models import Cluster, Deployment, Drain, Node
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.reconcilers.drains import DrainReconciler
from clusters.reconcilers.nodes import NodeReconciler
from kube.fake.controllers import device_plugin
from kube.resources import NODES
from tests.cast import SYSTEM, api, client_of, person, team
from tests.clusters.world import gpu_of, version_of
from tests.contracts.cluster_rigs import KubernetesRig
from tests.crash.harness import Clock, worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.any_database]
BERT = {"name": "bert", "memory_mib": 9_000, "share": 0.1}
LLAMA = {"name": "llama", "memory_mib": 30_000, "share": 0.4}


class Declared:
    """A machine of two H100s and one of a model without MIG."""

    def __init__(self) -> None:
        self.clock = Clock(timezone.now())
        cluster = Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})[0]
        Node.objects.create(cluster=cluster, uid="one", name="one", seen_at=timezone.now())
        inventory = [
            {"machine": "h100s", "cards": 2, "model": "H100-80GB"},
            {"machine": "l4s", "cards": 2, "model": "L4"},
        ]
        self.pool = services.create_pool(
            actor=SYSTEM, team=team("vision"), name="small", cluster=cluster, kind="small_jobs",
            inventory=inventory,
        )  # fmt: skip
        self.runs = FakeWorkloads()

    def set(
        self, *needs: dict[str, Any], card: int | None = 0, machine: str = "h100s", **more: Any
    ) -> CardLayout:
        return services.set_layout(self.pool, actor=SYSTEM, machine=machine, card=card, needs=needs, **more)

    def pass_(self, seconds: int) -> None:
        kernel = worker([CardLayoutReconciler(), WorkloadReconciler(lambda _cluster: self.runs)], self.clock)
        for _ in range(seconds):
            kernel.sweep()
            self.clock.pass_(timedelta(seconds=1))

    def hold(self, card: int, *, machine: str = "h100s") -> Any:
        row = submit_workload(
            actor=SYSTEM, team=self.pool.team, name="train", pool=self.pool, cards=1, command=["train"]
        )
        assert grant_cards(row, CardGrant(str(row.pk), machine, (card,)), now=self.clock())
        self.pass_(4)
        return row

    def divided(self) -> dict[int, list[str]]:
        machine = next(one for one in ledger_of(self.pool.cluster).machines if one.name == "h100s")
        return {card: [one["profile"] for one in found] for card, found in machine.divided.items()}

    def free(self) -> tuple[int, ...]:
        return next(one for one in ledger_of(self.pool.cluster).machines if one.name == "h100s").free


@pytest.fixture
def declared() -> Declared:
    return Declared()


def test_a_declared_card_is_divided_for_its_models_and_nobody_gets_it_whole(declared: Declared) -> None:
    assert [one["profile"] for one in declared.set(BERT, LLAMA, dry_run=True).instances] == [
        "3g.40gb",
        "1g.10gb",
    ]
    assert not CardLayout.objects.exists()
    row = declared.set(BERT, LLAMA)
    assert declared.free() == (1,)
    declared.pass_(10)
    row.refresh_from_db()
    assert (row.state, row.is_simulated) == ("applied", True)
    assert declared.divided() == {0: ["3g.40gb", "1g.10gb"]}

    services.undo_layout(row, actor=SYSTEM)
    declared.pass_(10)
    assert (declared.divided(), declared.free()) == ({}, (0, 1))
    with pytest.raises(PlanNotOpen):
        services.undo_layout(row, actor=SYSTEM)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"machine": "l4s"}, "machine"),
        ({"machine": "nowhere"}, "machine"),
        ({"card": 2}, "card"),
        ({"card": None}, "card"),
        ({"needs": [{**BERT, "memory_mib": 90_000}]}, "needs"),
        ({"needs": [LLAMA, LLAMA, LLAMA]}, "needs"),
        ({"needs": [BERT] * 8}, "needs"),
    ],
)
def test_impossible_layouts_are_refused_by_their_field(
    declared: Declared, given: dict[str, Any], field: str
) -> None:
    needs = given.pop("needs", [BERT])
    with pytest.raises(InvalidPool) as refused:
        declared.set(*needs, **given)
    assert field in refused.value.fields


def test_a_card_in_use_is_refused_or_drained_first(declared: Declared) -> None:
    holder = declared.hold(0)
    with pytest.raises(InvalidPool) as refused:
        declared.set(BERT)
    assert "train" in refused.value.fields["card"][0]

    row = declared.set(BERT, drain=True)
    declared.pass_(20)
    row.refresh_from_db()
    holder.refresh_from_db()
    assert (row.state, holder.state) == ("applied", "queued")
    assert holder.checkpoint_at is not None, "it lost nothing"


def test_a_holder_that_keeps_its_work_keeps_its_card(declared: Declared) -> None:
    holder = declared.hold(0)
    type(holder).objects.update(writes_checkpoints=False, is_preemptible=False)
    row = declared.set(BERT, drain=True)
    declared.pass_(20)
    row.refresh_from_db()
    assert row.state == "failed"
    assert "train" in row.problem
    assert declared.divided() == {}


class Operated:
    """A machine of eight H100s in Kubernetes, with MIG manager, in a pool by its label."""

    def __init__(self) -> None:
        self.clock = Clock(timezone.now())
        self.rig = KubernetesRig()
        labels = {
            "pool": "small", "nvidia.com/mig.capable": "true", "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559",
        }  # fmt: skip
        for key, value in labels.items():
            self.rig.label(key, value)
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

    def set(self, *needs: dict[str, Any], sharing: str = "mig") -> CardLayout:
        return services.set_layout(
            self.pool,
            actor=SYSTEM,
            machine="gpu-0",
            needs=needs,
            sharing=sharing,
            reason="More models.",
        )

    def labels(self) -> dict[str, str]:
        (node,) = self.rig.cluster.client.list(NODES).items
        return node["metadata"]["labels"]  # type: ignore[no-any-return]

    def offered(self) -> dict[str, str]:
        (node,) = self.rig.cluster.client.list(NODES).items
        return {k: v for k, v in node["status"]["allocatable"].items() if k.startswith("nvidia.com/")}


@pytest.fixture
def operated() -> Operated:
    return Operated()


def test_mig_manager_divides_a_drained_machine_which_returns_and_undo_makes_it_whole(
    operated: Operated,
) -> None:
    row = operated.set(BERT)
    assert (row.config, len(row.instances)) == ("all-1g.10gb", 7)
    operated.pass_(40)
    row.refresh_from_db()
    assert row.state == "applied", row.problem
    assert operated.offered() == {"nvidia.com/mig-1g.10gb": "56"}
    assert Drain.objects.get().state == "drained"
    assert not Node.objects.get().is_cordoned

    back = services.undo_layout(row, actor=SYSTEM)
    operated.pass_(40)
    back.refresh_from_db()
    assert back.state == "applied", back.problem
    assert operated.offered() == {"nvidia.com/gpu": "8"}


def test_a_layout_that_mig_manager_cannot_apply_leaves_the_machine_cordoned_and_says_so(
    operated: Operated,
) -> None:
    row = operated.set(BERT)
    CardLayout.objects.update(config="all-1g.77gb")
    operated.pass_(40)
    row.refresh_from_db()
    assert row.state == "failed"
    assert "all-1g.77gb" in row.problem
    assert Node.objects.get().is_cordoned


def test_shares_of_a_declared_card_hold_what_its_models_need_and_share_out_the_rest(
    declared: Declared,
) -> None:
    row = declared.set(BERT, LLAMA, sharing="mps")
    small, large = row.instances
    assert (small["threads"], large["threads"]) == (20, 80)
    assert small["memory_mib"] >= 9_000
    assert small["memory_mib"] + large["memory_mib"] <= 81_559
    declared.pass_(10)
    row.refresh_from_db()
    assert (row.state, row.is_simulated, declared.free()) == ("applied", True, (1,))
    with pytest.raises(InvalidPool) as refused:
        declared.set(BERT, sharing="mig")
    assert "sharing" in refused.value.fields

    services.undo_layout(row, actor=SYSTEM)
    declared.pass_(10)
    assert (declared.divided(), declared.free()) == ({}, (0, 1))


@pytest.mark.parametrize(
    ("needs", "machine"),
    [
        ([{**BERT, "share": 0.6}, {**LLAMA, "share": 0.5}], "h100s"),
        ([{**BERT, "memory_mib": 60_000}, LLAMA], "h100s"),
        ([LLAMA], "l4s"),
    ],
)
def test_shares_that_a_card_cannot_hold_are_refused(
    declared: Declared, needs: list[dict[str, Any]], machine: str
) -> None:
    with pytest.raises(InvalidPool) as refused:
        declared.set(*needs, sharing="mps", machine=machine)
    assert "needs" in refused.value.fields


def test_teams_do_not_share_a_card_by_mps_for_it_is_one_fault_domain(declared: Declared) -> None:
    """A holder that borrows, and a service that another team owns."""
    Deployment.objects.create(
        name="whisper-1", cluster=declared.pool.cluster, team=team("speech"), service="whisper",
        version=version_of(team("speech"), "whisper:v1"), version_label="whisper:v1", engine="echo",
        replicas=1, slots=8,
    )  # fmt: skip
    with pytest.raises(InvalidPool) as refused:
        declared.set({**BERT, "name": "whisper"}, sharing="mps")
    assert "speech" in refused.value.fields["needs"][0]
    assert declared.set({**BERT, "name": "whisper"}, dry_run=True).instances, "MIG keeps them apart"

    holder = declared.hold(0)
    type(holder).objects.update(team=team("speech"))
    with pytest.raises(InvalidPool) as refused:
        declared.set(BERT, sharing="mps", drain=True)
    assert "speech" in refused.value.fields["machine"][0]


def test_the_device_plugin_shares_a_drained_machine_by_mps_and_undo_makes_it_whole(
    operated: Operated,
) -> None:
    row = operated.set(LLAMA, sharing="mps")
    assert (row.config, len(row.instances)) == ("mps-2", 2)
    assert row.instances[0]["memory_mib"] == 81_559 // 2
    operated.pass_(40)
    row.refresh_from_db()
    assert row.state == "applied", row.problem
    assert operated.offered() == {"nvidia.com/gpu": "16"}
    assert Drain.objects.get().state == "drained"
    machine = next(one for one in ledger_of(operated.cluster).machines if one.name == "gpu-0")
    assert (machine.cards, machine.free, machine.closed) == (8, (), "shared")

    back = services.undo_layout(row, actor=SYSTEM)
    operated.pass_(40)
    back.refresh_from_db()
    assert back.state == "applied", back.problem
    assert operated.offered() == {"nvidia.com/gpu": "8"}
    assert "nvidia.com/device-plugin.config" not in operated.labels()


def test_processes_on_the_cards_of_this_machine_give_way_before_mps_divides_them() -> None:
    """The machine itself, and no declared one: a backend in memory stands for it."""
    here = FakeClusterBackend()
    (seen,) = [one for one in here.nodes() if isinstance(one, ObservedNode)]
    scene = Declared()
    node = Node.objects.create(
        cluster=scene.pool.cluster,
        uid=seen.uid,
        name=seen.name,
        labels={"pool": "real"},
        seen_at=timezone.now(),
    )
    gpu_of(node, name="NVIDIA L4", memory_bytes=23_034 * 2**20)
    services.change_pool(scene.pool, actor=SYSTEM, inventory=[], selector={"pool": "real"})
    holder = scene.hold(0, machine=seen.name)
    row = scene.set(BERT, card=None, machine=seen.name, sharing="mps", drain=True)
    assert (row.config, len(row.instances)) == ("mps-2", 2)

    def backend(_cluster: Cluster) -> Any:
        return here

    kernel = worker(
        [
            DrainReconciler(backend), CardLayoutReconciler(backend), NodeReconciler(backend),
            WorkloadReconciler(lambda _cluster: scene.runs),
        ],
        scene.clock,
    )  # fmt: skip
    for _ in range(40):
        kernel.sweep()
        scene.clock.pass_(timedelta(seconds=1))
    row.refresh_from_db()
    holder.refresh_from_db()
    assert (row.state, row.problem, here.node_operations.mps) == ("applied", "", 2)
    assert holder.state == "queued"
    assert holder.checkpoint_at is not None, "it lost nothing"


def test_shares_that_the_device_plugin_has_no_configuration_for_leave_the_machine_cordoned(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_plugin, "MOST_SHARES", 1)
    row = operated.set(LLAMA, sharing="mps")
    operated.pass_(20)
    operated.clock.pass_(timedelta(minutes=16))
    operated.pass_(4)
    row.refresh_from_db()
    assert row.state == "failed"
    assert "mps-2" in row.problem
    assert Node.objects.get().is_cordoned


def test_people_divide_a_card_on_its_page_and_by_rest(declared: Declared) -> None:
    browser = client_of(person("ada", vision="approver"))
    page = f"/capacity/{declared.pool.pk}/cards/"
    assert "simulated" in browser.get(page).content.decode().lower()
    sent = {"machine": "h100s", "card": 0, "needs": "bert 9000 0.1\nllama 30000 0.4", "do": "look"}
    assert "3g.40gb" in browser.post(page, sent).content.decode()
    assert browser.post(page, {**sent, "needs": "bert lots"}).status_code == 422
    assert browser.post(page, {**sent, "do": "apply"}).status_code == 302
    declared.pass_(10)
    row = CardLayout.objects.get()
    assert (row.state, row.decided_by) == ("applied", "ada")
    shown = (
        api(person("dina", vision="developer"))
        .get(f"capacity/pools/{declared.pool.pk}/cards/")
        .json()["cards"]
    )
    assert [one["profile"] for one in shown[0]["instances"]] == ["3g.40gb", "1g.10gb"]
    by_mps = {**sent, "card": 1, "sharing": "mps"}
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20" in browser.post(page, by_mps).content.decode()
    assert browser.post(f"/capacity/layouts/{row.pk}/+undo/").status_code in (204, 302)
