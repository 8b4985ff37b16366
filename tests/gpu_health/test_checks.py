"""Checks of machines: ordered, run once nobody computes there, and their reports judged."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from accounts.states import Role
from clusters.backends.fake import NODE, FakeClusterBackend
from clusters.backends.observed_pods import ObservedPod
from clusters.models import Cluster, Gpu, Node
from common.actor import Actor
from common.jobs.spec import Ending
from common.models import AuditRecord
from common.reconcile import Kernel
from gpu_health.errors import CheckUnderWay
from gpu_health.models import CheckSchedule, Finding, GpuCheck, GpuCount
from gpu_health.reconcilers.check_schedule import CheckScheduleReconciler
from gpu_health.reconcilers.checks import CheckReconciler
from gpu_health.services.checks import cancel_check, order_check
from tests import cast
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Clock, Crash, crashes, die, worker

pytestmark = pytest.mark.django_db
LINK = {"name": "host_to_gpu", "gpu_bus_id": "0000:9b:00", "measured": 11.0, "expected": 37.8, "unit": "GB/s"}
PASSED = {"level": 1, "passed": True, "checks": [{**LINK, "outcome": "passed", "words": "ok"}]}
FAILED = {
    "level": 1,
    "passed": False,
    "devices": ["NVIDIA L4"],
    "checks": [{**LINK, "outcome": "failed", "words": "11 GB/s, less than the 38 of its model."}],
}
SYSTEM = Actor.system("test")
TENANT = ObservedPod(uid="p1", name="train-0", namespace="research", gpus={"nvidia.com/gpu": 4})


class Bench:
    """A machine that is checked by a worker, with a clock that tests move."""

    def __init__(self) -> None:
        self.clock = Clock(timezone.now())
        self.world = FakeClusterBackend()
        self.runner = self.world.node_operations.job_runner
        self.pods: tuple[ObservedPod, ...] = ()
        self.world.node_operations.pods = lambda _node: self.pods  # type: ignore[method-assign]
        cluster = Cluster.objects.create(name="gpus", kind="embedded", team=cast.team("serving"))
        self.node = Node.objects.create(
            cluster=cluster, uid=NODE.uid, name=NODE.name, boot_id="b1", seen_at=timezone.now()
        )
        Gpu.objects.create(cluster=cluster, node=self.node, uuid="GPU-1", index=0)
        self.kernel = self.worker()

    def worker(self, checkpoints: Checkpoints | None = None) -> Kernel:
        return worker([CheckReconciler(lambda _cluster: self.world)], self.clock, checkpoints, Kernel)

    def order(self, **given: Any) -> GpuCheck:
        check = order_check(actor=SYSTEM, node=self.node, **given)
        self.clock.at = max(self.clock.at, timezone.now())
        return check

    def sweep(self, check: GpuCheck, *, turns: int = 1, seconds: float = 20.0) -> GpuCheck:
        for _ in range(turns):
            self.kernel.sweep()
            self.clock.pass_(timedelta(seconds=seconds))
        check.refresh_from_db()
        return check


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def olga(bench: Bench) -> User:
    return cast.person("olga", serving=Role.OPERATOR)


def test_a_check_of_an_idle_machine_runs_as_a_job_and_passes(bench: Bench) -> None:
    bench.runner.program = lambda _spec: PASSED

    check = bench.sweep(bench.order(level=2), turns=3)

    assert (check.state, check.why) == ("passed", "")
    (spec,) = bench.runner.started
    assert spec.argv[1:] == ("-m", "serving.checks", "gpu", "--level", "2", "--json")
    assert not Finding.objects.exists()


def test_a_check_that_fails_is_a_finding_with_its_words(bench: Bench) -> None:
    bench.runner.program = lambda _spec: FAILED

    check = bench.sweep(bench.order(), turns=3)

    assert (check.state, check.why) == ("failed", "1 of 1 checks failed.")
    finding = Finding.objects.get()
    assert (finding.fault, finding.device) == ("check.pcie_bandwidth", "0000:9b:00")
    assert "11 GB/s" in finding.raw


def test_an_inconclusive_check_opens_no_finding_and_closes_none(bench: Bench) -> None:
    bench.runner.program = lambda _spec: FAILED
    bench.sweep(bench.order(), turns=3)
    too_busy = {**LINK, "outcome": "inconclusive", "words": "Too busy to tell."}
    others = [{**LINK, "name": "memory_bandwidth", "outcome": "inconclusive", "words": "Too busy to tell."}]
    bench.runner.program = lambda _spec: {**PASSED, "passed": False, "checks": [too_busy, *others]}

    check = bench.sweep(bench.order(), turns=3)

    assert (check.state, check.why) == ("inconclusive", "2 of 2 checks are inconclusive: Too busy to tell.")
    assert [(one.fault, one.state) for one in Finding.objects.all()] == [("check.pcie_bandwidth", "open")]


def test_it_waits_while_somebody_computes_there_and_says_who(bench: Bench) -> None:
    bench.pods = (TENANT,)
    check = bench.sweep(bench.order(), turns=3)
    assert check.state == "waiting"
    assert "research/train-0" in check.why
    assert not bench.runner.started

    bench.pods = ()
    bench.runner.program = lambda _spec: PASSED

    assert bench.sweep(check, turns=3).state == "passed"


def test_a_machine_that_is_never_idle_in_time_is_not_checked(bench: Bench) -> None:
    bench.pods = (TENANT,)

    check = bench.sweep(bench.order(waits=timedelta(minutes=1)), turns=6)

    assert check.state == "impossible"
    assert "never idle" in check.why
    assert not bench.runner.started


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"log_tail": "No GPU answers on this machine.\n"}, "No GPU answers"),
        ({"result": {"passed": "yes"}, "log_tail": "no report"}, "no report"),
        ({"why": "It took longer than it may."}, "longer than it may"),
    ],
)
def test_a_job_without_a_report_finds_out_nothing(bench: Bench, seen: dict[str, Any], words: str) -> None:
    check = bench.sweep(bench.order(), turns=2)
    (name,) = bench.runner.live
    bench.runner.die(name, Ending.ERROR, **seen)

    check = bench.sweep(check, turns=2)

    assert check.state == "impossible"
    assert words in check.why
    assert not Finding.objects.exists()


def test_a_machine_without_gpus_is_neither_offered_nor_checked(bench: Bench, olga: User) -> None:
    bare = Node.objects.create(cluster=bench.node.cluster, uid="bare", name="bare", seen_at=timezone.now())
    browser, api = cast.client_of(olga), cast.api(olga)
    form = browser.get("/gpu-health/checks/+order/").content.decode()
    assert f">{bench.node}<" in form
    assert ">bare" not in form

    refused = api.post("gpu-health/checks/", {"node": "bare"})
    assert refused.status_code == 400
    assert "bare has no GPUs" in refused.json()["detail"]
    Gpu.objects.all().delete()
    assert "+order/" not in browser.get("/gpu-health/checks/").content.decode()

    GpuCount.objects.create(node=bare, fixed=8)
    assert api.post("gpu-health/checks/", {"node": "bare"}).status_code == 201


def test_a_job_that_is_gone_is_not_started_again(bench: Bench) -> None:
    check = bench.sweep(bench.order(), turns=2)
    (name,) = bench.runner.live
    bench.runner.lose(name)

    assert bench.sweep(check, turns=2).state == "impossible"
    assert len(bench.runner.started) == 1


def test_a_cancelled_check_is_stopped_and_nothing_follows(bench: Bench) -> None:
    check = bench.sweep(bench.order(), turns=2)

    cancel_check(actor=SYSTEM, check=check, reason="wanted elsewhere")

    assert bench.sweep(check, turns=3).state == "cancelled"
    assert bench.runner.stopped
    assert AuditRecord.objects.filter(action="gpu_check.cancel", reason="wanted elsewhere").exists()


def test_a_machine_has_one_check_at_a_time(bench: Bench) -> None:
    bench.order()

    with pytest.raises(CheckUnderWay):
        bench.order(level=3)


def test_a_crash_at_any_point_starts_one_job_and_tells_one_finding() -> None:
    for point in crashes():
        GpuCheck.objects.all().delete()
        Finding.objects.all().delete()
        Cluster.objects.all().delete()
        bench = Bench()
        bench.runner.program = lambda _spec: FAILED
        check = bench.order()
        checkpoints = Checkpoints(at=point, then=die)
        bench.kernel = bench.worker(checkpoints)
        crashed = False
        for _ in range(12):
            try:
                bench.kernel.sweep()
            except Crash:
                crashed = True
                bench.kernel = bench.worker()
                bench.clock.pass_(LEASE_AND_A_BIT)
            bench.clock.pass_(timedelta(seconds=20))
        check.refresh_from_db()
        assert check.state == "failed", point
        assert len(bench.runner.started) == 1, point
        assert Finding.objects.count() == 1, point
        if not crashed:
            break


def take_turn(hours: int, settings: Any) -> None:
    settings.SLIPWAY_GPU_CHECK_HOURS = hours
    kernel = worker([CheckScheduleReconciler()], Clock(timezone.now()), None, Kernel)
    CheckSchedule.objects.all().delete()
    CheckSchedule.objects.create(next_at=timezone.now() - timedelta(seconds=1))
    kernel.sweep()


def test_idle_machines_are_checked_in_turn_where_a_setting_says_so(bench: Bench, settings: Any) -> None:
    take_turn(0, settings)
    assert not GpuCheck.objects.exists()

    take_turn(24, settings)
    take_turn(24, settings)

    assert GpuCheck.objects.get().ordered_by == "gpu-health"


def test_a_machine_is_checked_again_when_it_is_its_turn(bench: Bench, settings: Any) -> None:
    settings.SLIPWAY_GPU_CHECK_HOURS = 24
    clock = Clock(timezone.now() + timedelta(minutes=1))
    kernel = worker([CheckScheduleReconciler()], clock, None, Kernel)
    CheckSchedule.objects.update(next_at=timezone.now())
    kernel.sweep()
    GpuCheck.objects.update(state="passed", ended_at=timezone.now())

    clock.pass_(timedelta(hours=30))
    kernel.sweep()

    assert GpuCheck.objects.count() == 2


@pytest.mark.parametrize("why", ["cordoned", "checked lately", "no GPUs"])
def test_a_machine_that_is_not_due_is_left_alone(bench: Bench, settings: Any, why: str) -> None:
    if why == "cordoned":
        Node.objects.update(is_cordoned=True)
    elif why == "no GPUs":
        Gpu.objects.all().delete()
    else:
        bench.runner.program = lambda _spec: PASSED
        bench.sweep(bench.order(), turns=3)
        GpuCheck.objects.update(ended_at=timezone.now())
    before = GpuCheck.objects.count()

    take_turn(24, settings)

    assert GpuCheck.objects.count() == before


def test_a_check_is_ordered_and_read_on_its_pages(bench: Bench, olga: User) -> None:
    bench.runner.program = lambda _spec: FAILED
    browser = cast.client_of(olga)
    form = browser.get(f"/gpu-health/checks/+order/?node={bench.node.pk}").content.decode()
    assert f'value="{bench.node.pk}" selected' in form

    given = {"node": bench.node.pk, "level": 1, "wait_minutes": 5, "reason": "new riser"}
    answer = browser.post("/gpu-health/checks/+order/", given)
    check = bench.sweep(GpuCheck.objects.get(), turns=3)

    assert answer.status_code == 302
    shown = browser.get(f"/gpu-health/checks/{check.pk}/").content.decode()
    assert "11 GB/s, less than the 38 of its model." in shown
    assert "new riser" in shown
    assert f"/gpu-health/checks/{check.pk}/" in browser.get("/gpu-health/checks/").content.decode()
    again = browser.post("/gpu-health/checks/+order/", {**given, "wait_minutes": -1})
    assert again.status_code == 422


def test_who_may_not_operate_the_fleet_orders_none(bench: Bench) -> None:
    dev = cast.person("dev", serving=Role.DEVELOPER)

    answer = cast.client_of(dev).post(
        "/gpu-health/checks/+order/", {"node": bench.node.pk, "level": 1, "wait_minutes": 5}
    )

    assert answer.status_code == 422
    assert not GpuCheck.objects.exists()


def test_over_rest_a_check_is_ordered_by_name_and_tells_what_was_found(bench: Bench, olga: User) -> None:
    bench.runner.program = lambda _spec: FAILED
    api = cast.api(olga)

    made = api.post("gpu-health/checks/", {"node": NODE.name, "reason": "ci"})
    bench.sweep(GpuCheck.objects.get(), turns=3)
    told = api.get(f"gpu-health/checks/{made.json()['id']}/").json()

    assert made.status_code == 201
    assert (told["state"], told["passed"]) == ("failed", False)
    assert told["checks"][0]["words"].startswith("11 GB/s")
    assert api.post("gpu-health/checks/", {"node": "nobody"}).status_code == 404
    assert api.post("gpu-health/checks/", {"node": NODE.name, "level": 4}).status_code == 400
    assert api.post(f"gpu-health/checks/{told['id']}/cancel/", {}).status_code == 409
