"""Workloads are real processes: they queue, run, give way with a checkpoint, and go on from it."""

import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.models import Team
from capacity import services
from capacity.errors import InvalidPool, InvalidWorkload
from capacity.ledger import ledger_of
from capacity.models import Allocation, CapacityPlan, Pool, Workload
from capacity.reconcilers import CapacityPlanReconciler, PoolReconciler
from capacity.reconcilers.workloads import WorkloadReconciler
from capacity.services.workloads import cancel_workload, hold_workload, release_workload, submit_workload
from clusters.backends.embedded.workloads import EmbeddedWorkloads
from clusters.models import Cluster, Node
from common.hosts import this_host
from common.jobs.runners.subprocess import SubprocessRunner
from tests.cast import SYSTEM, api, client_of, person
from tests.crash.harness import Clock, worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.process]

TRAINER = """
import os, pathlib, sys, time
kept = pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
last, answers = int(sys.argv[1]), sys.argv[2] != "deaf"
step, asked, done = kept / "step", kept / "requested", kept / "done"
at = int(step.read_text()) if step.exists() else 0
print("begins at", at, flush=True)
while at < last:
    at += 1
    if answers and asked.exists() and (not done.exists() or done.read_text() != asked.read_text()):
        step.write_text(str(at))
        done.write_text(asked.read_text())
    if (kept / "fails").exists():
        raise SystemExit("no neighbour answers")
    time.sleep(0.02)
"""
WITHIN_SECONDS = 20.0


class Floor:
    """A machine of 8 cards for training and one of 4 for small jobs, declared on one real machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = Clock(timezone.now())
        self.cluster = Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})[0]
        Node.objects.create(cluster=self.cluster, uid="one", name="one", seen_at=timezone.now())
        self.team = Team.objects.get_or_create(name="vision")[0]
        self.training = self.pool("training", "training", 8)
        self.small = self.pool("small", "small_jobs", 4)
        self.jobs = SubprocessRunner(
            directory / "jobs", host=this_host(), code=Path(django_settings.BASE_DIR)
        )
        self.runner = EmbeddedWorkloads(directory / "workloads", lambda: self.jobs)

    def pool(self, name: str, kind: str, cards: int) -> Pool:
        inventory = [{"machine": f"{name}-1", "cards": cards, "model": "H100-80GB", "rack": "r1"}]
        return services.create_pool(
            actor=SYSTEM, team=self.team, name=name, cluster=self.cluster, kind=kind, inventory=inventory
        )

    def submit(self, name: str, pool: Pool, cards: int, *, steps: int = 10_000, **columns: Any) -> Workload:
        how = columns.pop("how", "hears")
        command = [sys.executable, "-c", TRAINER, str(steps), how]
        return submit_workload(
            actor=SYSTEM, team=self.team, name=name, pool=pool, cards=cards, command=command, **columns
        )

    def until(self, holds: Any, *, by: float = 1.0) -> None:
        kernel = worker(
            [PoolReconciler(), CapacityPlanReconciler(), WorkloadReconciler(lambda _cluster: self.runner)],
            self.clock,
        )
        deadline = time.monotonic() + WITHIN_SECONDS
        while not holds():
            assert time.monotonic() < deadline, list(Workload.objects.values("name", "state", "problem"))
            kernel.sweep()
            self.clock.pass_(timedelta(seconds=by))
            time.sleep(0.05)

    def state(self, name: str) -> str:
        return str(Workload.objects.get(name=name).state)

    def held(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in Allocation.objects.select_related("workload"):
            found.setdefault(one.workload.name, []).append(f"{one.machine}:{one.card}")
        return found

    def end(self) -> None:
        for path in (self.directory / "jobs").glob("*"):
            self.jobs.stop(path.name)
        deadline = time.monotonic() + WITHIN_SECONDS
        while any(self.jobs.observe(p.name).is_live for p in (self.directory / "jobs").glob("*")):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    made = Floor(tmp_path)
    yield made
    made.end()


def test_a_workload_runs_on_the_cards_of_its_pool_and_gives_them_back(floor: Floor) -> None:
    floor.submit("short", floor.small, 2, steps=5)
    floor.until(lambda: floor.state("short") == "running")
    assert floor.held() == {"short": ["small-1:0", "small-1:1"]}
    floor.until(lambda: floor.state("short") == "succeeded")
    assert floor.held() == {}
    assert "begins at 0" in Workload.objects.get().log_tail


def test_a_workload_that_runs_shows_what_this_run_has_written_and_nothing_of_the_one_before(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "clusters.services.logs.backend_of", lambda _cluster: SimpleNamespace(workloads=floor.runner)
    )
    row = floor.submit("long", floor.small, 1)
    asked = f"capacity/workloads/{row.pk}/log/"
    ada = api(person("ada", vision="developer"))
    assert ada.get(asked).json() == {
        "workload": row.pk, "state": "queued", "run": 0, "is_live": False, "log": "",
    }  # fmt: skip
    floor.until(lambda: floor.state("long") == "running")
    floor.until(lambda: ada.get(asked).json()["log"] == "begins at 0")
    assert Workload.objects.get().log_tail == "", "no row is written for it"

    row.refresh_from_db()
    hold_workload(row, actor=SYSTEM)
    floor.until(lambda: floor.state("long") == "queued")
    ended = ada.get(asked).json()
    assert (ended["run"], ended["is_live"], ended["log"]) == (1, False, "begins at 0")
    browser = client_of(person("vi", vision="viewer"))
    assert "run 1, which has ended" in browser.get(f"/workloads/{row.pk}/").content.decode()

    row.refresh_from_db()
    release_workload(row, actor=SYSTEM)
    floor.until(lambda: floor.state("long") == "running")
    floor.until(lambda: "begins at" in ada.get(asked).json()["log"])
    live = ada.get(asked).json()
    assert (live["run"], live["is_live"]) == (2, True)
    assert "begins at 0" not in live["log"]
    page = browser.get(f"/workloads/{row.pk}/?search=begins").content.decode()
    assert "run 2, the last 200 lines" in page
    assert live["log"] in page
    assert "every 2s" in page
    file = browser.get(f"/workloads/{row.pk}/log/")
    assert file["Content-Disposition"] == 'attachment; filename="long-run-2.log"'
    assert file.content.decode() == live["log"] + "\n"
    assert ada.get(f"{asked}?lines=0").status_code == 400
    assert api(person("eve", speech="admin")).get(asked).status_code == 404


def test_a_borrower_gives_the_owner_its_machine_back_and_goes_on_from_its_checkpoint(floor: Floor) -> None:
    """The plan is proposed, applied and undone by people; the borrower loses nothing but its restart."""
    floor.submit("filler", floor.small, 4)
    floor.until(lambda: floor.state("filler") == "running")
    floor.submit("borrower", floor.small, 4, priority=5)
    floor.until(lambda: floor.state("borrower") == "running")
    assert {one.lender for one in Allocation.objects.filter(workload__name="borrower")} == {floor.training}

    floor.submit("big", floor.training, 8)
    floor.until(lambda: CapacityPlan.objects.filter(state="proposed").exists())
    plan = CapacityPlan.objects.get()
    assert [(c["name"], bool(c["before"]), bool(c["after"])) for c in plan.changes] == [
        ("borrower", True, False),
        ("big", False, True),
    ]
    assert floor.state("borrower") == "running", "the pool advises"

    services.apply_plan(plan, actor=SYSTEM)
    floor.until(lambda: floor.state("big") == "running")
    floor.until(lambda: CapacityPlan.objects.get().state == "done")
    gave = Workload.objects.get(name="borrower")
    assert (gave.state, gave.runs, gave.checkpoint_at is not None) == ("queued", 1, True)
    assert len(floor.held()["big"]) == 8

    plan.refresh_from_db()
    services.undo_plan(plan, actor=SYSTEM)
    floor.until(lambda: floor.state("borrower") == "running")
    floor.until(lambda: CapacityPlan.objects.get(pk=plan.pk).state == "undone")
    assert floor.held()["borrower"] == [f"training-1:{card}" for card in range(4)]
    assert Workload.objects.get(name="big").held_by == SYSTEM.name
    floor.until(lambda: Workload.objects.get(name="borrower").resumed_at is not None, by=5)
    job = next(path for path in (floor.directory / "jobs").glob(f"workload-{gave.pk}-*") if _second(path))
    assert "begins at 0" not in (job / "log").read_text()


def test_one_over_two_machines_starts_on_both_gives_way_and_goes_on_or_ends_as_one(floor: Floor) -> None:
    inventory = [{"machine": f"node-{index}", "cards": 4} for index in (1, 2)]
    pool = services.create_pool(
        actor=SYSTEM, team=floor.team, name="nodes", cluster=floor.cluster, kind="training",
        borrowing_limit=0, inventory=inventory,
    )  # fmt: skip
    floor.submit("single", pool, 4, priority=1)
    floor.until(lambda: floor.state("single") == "running")
    row = floor.submit("gang", pool, 4, machines=2)
    ticks: list[int] = []
    floor.until(lambda: ticks.append(1) or len(ticks) > 15)
    assert floor.state("gang") == "queued"
    assert "gang" not in floor.held(), "all of its cards, or none"

    cancel_workload(Workload.objects.get(name="single"), actor=SYSTEM)
    floor.until(lambda: floor.state("gang") == "running")
    assert floor.held()["gang"] == [f"node-{index}:{card}" for index in (1, 2) for card in range(4)]
    hold_workload(Workload.objects.get(name="gang"), actor=SYSTEM)
    floor.until(lambda: floor.state("gang") == "queued")
    assert "gang" not in floor.held()
    kept = floor.directory / "workloads" / f"workload-{row.pk}"
    assert all(int((where / "step").read_text()) > 0 for where in (kept, kept / "rank-1"))

    release_workload(Workload.objects.get(name="gang"), actor=SYSTEM)
    floor.until(lambda: floor.state("gang") == "running")
    (kept / "rank-1" / "fails").touch()
    floor.until(lambda: floor.state("gang") == "failed")
    assert "gang" not in floor.held()
    assert "no neighbour" in Workload.objects.get(name="gang").problem
    assert not any(floor.jobs.observe(p.name).is_live for p in (floor.directory / "jobs").glob("*"))


def _second(path: Path) -> bool:
    return "begins at 0" not in (path / "log").read_text()


def test_who_writes_no_checkpoint_in_time_stays_unless_its_policy_lets_it_lose_work(floor: Floor) -> None:
    Pool.objects.update(state="automatic")
    floor.submit("deaf", floor.training, 8, how="deaf", checkpoint_seconds=5)
    floor.until(lambda: floor.state("deaf") == "running")
    floor.submit("urgent", floor.training, 8, priority=9)
    floor.until(lambda: CapacityPlan.objects.filter(state="failed").exists())
    assert "deaf" in CapacityPlan.objects.filter(state="failed").latest("pk").reason
    assert floor.state("deaf") == "running"

    Workload.objects.filter(name="deaf").update(may_lose_work=True)
    floor.until(lambda: floor.state("urgent") == "running")
    assert Workload.objects.get(name="deaf").lost_seconds > 0


def test_people_suspend_resume_and_cancel_a_workload(floor: Floor) -> None:
    row = floor.submit("one", floor.small, 1)
    floor.until(lambda: floor.state("one") == "running")
    row.refresh_from_db()
    hold_workload(row, actor=SYSTEM)
    floor.until(lambda: floor.state("one") == "queued")
    assert floor.held() == {}
    row.refresh_from_db()
    release_workload(row, actor=SYSTEM)
    floor.until(lambda: floor.state("one") == "running")
    row.refresh_from_db()
    assert row.runs == 2
    cancel_workload(row, actor=SYSTEM)
    floor.until(lambda: floor.state("one") == "cancelled")
    assert floor.held() == {}


def test_nothing_starts_while_the_kill_switch_is_on(floor: Floor) -> None:
    services.stop(actor=SYSTEM)
    floor.submit("late", floor.small, 1)
    ticks: list[int] = []
    floor.until(lambda: ticks.append(1) or len(ticks) > 30)
    assert floor.state("late") == "queued"
    services.resume(actor=SYSTEM)
    floor.until(lambda: floor.state("late") == "running")


def test_a_run_that_fails_is_told_with_its_last_words(floor: Floor) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no data set')"]
    submit_workload(actor=SYSTEM, team=floor.team, name="bad", pool=floor.small, cards=1, command=command)
    floor.until(lambda: floor.state("bad") == "failed")
    assert "no data set" in Workload.objects.get().problem


def test_a_card_has_one_holder_by_constraint(floor: Floor) -> None:
    rows = [floor.submit(name, floor.small, 1) for name in ("a", "b")]
    Allocation.objects.create(cluster=floor.cluster, machine="small-1", card=0, workload=rows[0])
    with pytest.raises(IntegrityError), transaction.atomic():
        Allocation.objects.create(cluster=floor.cluster, machine="small-1", card=0, workload=rows[1])


def test_a_cordoned_machine_takes_no_workload_and_says_why(floor: Floor) -> None:
    Node.objects.update(is_cordoned=True)
    assert {machine.closed for machine in ledger_of(floor.cluster).machines} == {"cordoned"}
    row = floor.submit("waits", floor.small, 1)
    floor.until(lambda: Workload.objects.get(pk=row.pk).problem)
    assert floor.state("waits") == "queued"


@pytest.mark.parametrize(
    ("field", "columns"),
    [
        ("granularity", {"kind": "training", "granularity": "worker"}),
        ("selector", {"kind": "training"}),
        ("selector", {"kind": "training", "selector": {"pool": 3}}),
        ("inventory", {"kind": "training", "inventory": [{"machine": "training-1", "cards": 8}]}),
        ("inventory", {"kind": "training", "inventory": [{"machine": "x", "cards": 0}]}),
        ("inventory", {"kind": "training", "inventory": [{"machine": "x", "cards": 1}] * 2}),
        ("inventory", {"kind": "training", "inventory": [{"machine": "X y", "cards": 1}]}),
        ("inventory", {"kind": "training", "inventory": [{"machine": "x", "cards": 1, "gpu": "b"}]}),
        ("guarantee", {"kind": "training", "inventory": [{"machine": "x", "cards": 8}], "guarantee": 9}),
        ("lending_limit", {"lending_limit": 3}),
    ],
)
def test_pools_that_contradict_themselves_or_others_are_refused_by_field(
    floor: Floor, field: str, columns: dict[str, Any]
) -> None:
    with pytest.raises(InvalidPool) as refused:
        services.create_pool(
            actor=SYSTEM, team=floor.team, name="new", cluster=floor.cluster, workers=1, **columns
        )
    assert list(refused.value.fields) == [field]


def test_workloads_that_cannot_be_run_are_refused_by_field(floor: Floor) -> None:
    serving = services.create_pool(
        actor=SYSTEM, team=floor.team, name="serving", cluster=floor.cluster, workers=2
    )
    given: dict[str, Any] = {"actor": SYSTEM, "team": floor.team, "name": "x", "cards": 1}
    for field, columns in (
        ("pool", {"pool": serving, "command": ["true"]}),
        ("command", {"pool": floor.small, "command": []}),
        ("command", {"pool": floor.small, "command": "true"}),
        ("cards", {"pool": floor.small, "command": ["true"], "cards": 65}),
        ("may_lose_work", {"pool": floor.small, "command": ["true"], "writes_checkpoints": False}),
    ):
        with pytest.raises(InvalidWorkload) as refused:
            submit_workload(**{**given, **columns})
        assert list(refused.value.fields) == [field]


def test_people_submit_on_the_page_by_rest_and_see_who_holds_which_card(floor: Floor) -> None:
    floor.submit("runs", floor.small, 2)
    floor.until(lambda: floor.state("runs") == "running")
    ops = client_of(person("ops", superuser=True))
    page = ops.get(f"/capacity/{floor.small.pk}/").content.decode()
    assert "small-1" in page
    assert ">runs</a> 0-1" in page
    assert "small-1" in ops.get("/capacity/").content.decode()
    sent = {
        "name": "mine", "team": floor.team.pk, "pool": "small", "kind": "batch", "cards": 1,
        "command": f"{sys.executable} -c 'print(1)'", "is_preemptible": "on", "writes_checkpoints": "on",
    }  # fmt: skip
    assert ops.post("/workloads/+new/", {**sent, "command": "'open"}).status_code == 422
    assert ops.post("/workloads/+new/", {**sent, "pool": "none"}).status_code == 422
    assert ops.post("/workloads/+new/", sent).status_code == 302
    assert Workload.objects.get(name="mine").command == [sys.executable, "-c", "print(1)"]

    developer = api(person("dina", vision="developer"))
    wish = {"name": "rest", "team": "vision", "pool": "small", "cards": 1, "command": ["true"]}
    assert developer.post("capacity/workloads/", wish).status_code == 403, "it would run beside us"
    assert api(person("olga", superuser=True)).post("capacity/workloads/", wish).status_code == 201
    assert [one["card"] for one in developer.get("capacity/allocations/").json()["results"]] == [0, 1]


def test_times_that_no_clock_holds_are_refused(floor: Floor) -> None:
    """A pool that could not reckon with them would look no more."""
    ada = api(person("ada", vision="admin", site="admin"))
    for field, asked in (
        ("dwell_seconds", {"name": "vast", "workers": 4}),
        ("defragment_after_seconds", {"name": "vast", "kind": "training"}),
        ("defragment_every_hours", {"name": "vast", "kind": "training"}),
    ):
        told = {"team": "vision", "cluster": "local", **asked, field: 10**15}
        refused = ada.post("capacity/pools/", told)
        assert (refused.status_code, list(refused.json()["errors"])) == (400, [field])
    with pytest.raises(InvalidWorkload, match="expected_seconds"):
        floor.submit("vast", floor.small, 1, expected_seconds=10**15)
