"""The fleet, computed from rows and heartbeats."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.agents import AgentContact
from clusters.alerts import ALERTS, alert_of
from clusters.fleet import (
    ClusterRow,
    DeploymentRow,
    FleetRows,
    LastHeartbeat,
    NodeRow,
    WorkerRow,
    fleet_of,
    narrowed,
)
from clusters.heartbeat_records import record_of
from clusters.live_values import values_of
from clusters.states import Alert
from common.live.board import PUBLIC
from serving.protocol import Counters, Heartbeat

NOW = datetime(2030, 1, 1, tzinfo=UTC)
VISION, SPEECH = 1, 2


def beat(**fields: Any) -> LastHeartbeat:
    given = {
        "pid": 1,
        "state": "ready",
        "reason": "",
        "busy": 0.0,
        "in_flight": 0,
        "slots": 4,
        "queue_depth": 0,
        "requests": 0,
        "age_seconds": 0.5,
        "full_seconds": 0.0,
    }
    return LastHeartbeat(**given | fields)


def worker(name: str = "chat-0", *, deployment: int = 1, node: int | None = 1, **fields: Any) -> WorkerRow:
    given = {
        "pk": 1,
        "uid": name,
        "name": name,
        "deployment_id": deployment,
        "node_id": node,
        "pid": 1,
        "state": "ready",
        "state_since": NOW - timedelta(minutes=1),
        "restarts": 0,
        "reason": "",
    }
    return WorkerRow(**given | fields)


def deployment(pk: int = 1, *, team: int = VISION, cluster: int = 1) -> DeploymentRow:
    return DeploymentRow(
        pk=pk,
        name=f"d{pk}",
        cluster_id=cluster,
        team_id=team,
        service="chat",
        version_label="story:v1",
        replicas=2,
        slots=4,
        state="ready",
        reason="",
    )


def rows(*workers: WorkerRow, **fields: Any) -> FleetRows:
    given = {
        "clusters": [ClusterRow(1, "local", None, "")],
        "nodes": [NodeRow(1, "box-1", 1, "online", "ready"), NodeRow(2, "box-2", 1, "online", "ready")],
        "deployments": [deployment()],
        "workers": workers,
    }
    return FleetRows(**given | fields)


def busy_of(*pairs: tuple[WorkerRow, LastHeartbeat]) -> float | None:
    fleet = fleet_of(
        rows(*(row for row, _ in pairs)),
        {row.name: said for row, said in pairs},
        now=NOW,
        is_live=True,
    )
    return fleet.clusters[0].load.busy


def test_busy_is_the_share_of_all_slots_at_work() -> None:
    assert busy_of(
        (worker("a"), beat(busy=0.5, slots=4)), (worker("b"), beat(busy=1.0, slots=12))
    ) == pytest.approx(0.875)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (worker("b"), beat(busy=1.0, age_seconds=6)),
        (worker("b", state="starting"), beat(busy=1.0)),
        (worker("b", state="failed"), beat(busy=1.0)),
    ],
)
def test_workers_that_are_lost_starting_or_failed_do_not_count(row: WorkerRow, said: LastHeartbeat) -> None:
    assert busy_of((worker("a"), beat(busy=0.25)), (row, said)) == 0.25


def test_a_fleet_without_a_serving_worker_has_no_busy_rate() -> None:
    assert busy_of() is None


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 64)), min_size=1, max_size=8))
def test_busy_lies_between_the_least_and_the_most_busy_worker(loads: list[tuple[float, int]]) -> None:
    pairs = [
        (worker(f"w{number}"), beat(busy=share, slots=slots)) for number, (share, slots) in enumerate(loads)
    ]
    shares = [share for share, _ in loads]
    found = busy_of(*pairs)
    assert found is not None
    assert min(shares) - 1e-9 <= found <= max(shares) + 1e-9


@pytest.mark.parametrize(
    ("row", "said", "alert"),
    [
        (worker(), beat(age_seconds=4.9), Alert.NONE),
        (worker(), beat(age_seconds=5.1), Alert.LOST),
        (worker(), None, Alert.LOST),
        (worker(state_since=NOW - timedelta(seconds=3)), None, Alert.NONE),
        # It was restarted and is ready since a moment: the old process's silence does not count.
        (worker(pid=2, state_since=NOW - timedelta(seconds=3)), beat(age_seconds=20), Alert.NONE),
        # It was restarted, and the row does not know yet.
        (worker(pid=1), beat(pid=2), Alert.NONE),
        (worker(state="starting"), None, Alert.NONE),
        # It is paused: it was ready, and answers neither its cluster's checks nor sends heartbeats.
        (worker(state="starting"), beat(age_seconds=20), Alert.LOST),
        (worker(state="starting", pid=None), beat(age_seconds=20), Alert.LOST),
        (worker(state="starting", alert="lost"), None, Alert.LOST),
        (worker(state="starting", alert="lost"), beat(age_seconds=2), Alert.NONE),
        (worker(state="starting"), beat(age_seconds=2), Alert.NONE),
        (worker(state="starting", pid=2), beat(pid=1, age_seconds=20), Alert.NONE),
        (worker(state="starting"), beat(state="starting", age_seconds=20), Alert.NONE),
        # Its process was killed, and the next one does not answer yet.
        (worker(state="starting", restarts=1), beat(), Alert.LOST),
        (worker(restarts=1), beat(), Alert.NONE),
        (worker(), beat(busy=1.0, full_seconds=9.9), Alert.NONE),
        (worker(), beat(busy=1.0, full_seconds=600, unfinished_seconds=2), Alert.SATURATED),
        (worker(), beat(busy=1.0, full_seconds=60, unfinished_seconds=59), Alert.SATURATED),
        (worker(), beat(busy=1.0, full_seconds=60, unfinished_seconds=60), Alert.STUCK),
        # One long answer while other slots are free.
        (worker(), beat(busy=0.25, unfinished_seconds=600), Alert.NONE),
        (worker(), beat(busy=1.0, full_seconds=60.0, age_seconds=6), Alert.LOST),
    ],
)
def test_who_is_lost_and_who_is_stuck(row: WorkerRow, said: LastHeartbeat | None, alert: Alert) -> None:
    assert alert_of(row, said, now=NOW) == alert


@pytest.mark.parametrize(
    ("agent", "silent_seconds", "alert"),
    [
        # It reports without the worker.
        (AgentContact(0.5, 600), 6, Alert.LOST),
        (AgentContact(0.5, 600), 5.2, Alert.NONE),
        # It fell silent together with the worker, or a moment after it.
        (AgentContact(30, 600), 31, Alert.NONE),
        (AgentContact(None), 55, Alert.NONE),
        # It had missed the worker before.
        (AgentContact(30, 600), 36, Alert.LOST),
        # It is back, and has not heard its workers yet.
        (AgentContact(0.5, 3), 55, Alert.NONE),
        (AgentContact(0.5, 6), 55, Alert.LOST),
    ],
)
def test_a_worker_is_lost_by_what_its_agent_misses_not_by_the_silence_of_the_agent(
    agent: AgentContact, silent_seconds: float, alert: Alert
) -> None:
    assert alert_of(worker(), beat(age_seconds=silent_seconds), agent=agent, now=NOW) == alert


@pytest.mark.parametrize(("seen", "lost"), [(2, 0), (16, 1), (None, 1)])
def test_a_silent_agent_excuses_workers_only_while_their_backend_sees_them(
    seen: int | None, lost: int
) -> None:
    looked = None if seen is None else NOW - timedelta(seconds=seen)
    found = fleet_of(
        rows(worker(agent="1/box-1"), deployments=[replace(deployment(), observed_at=looked)]),
        {"chat-0": beat(age_seconds=20)},
        agents={"1/box-1": AgentContact(20, 600)},
        now=NOW,
        is_live=True,
    )
    load = found.clusters[0].load
    assert (load.lost, load.ready) == (lost, 1 - lost)


def test_a_machine_shows_that_its_agent_is_silent_after_a_web_could_have_started_anew() -> None:
    def silent(seconds: float) -> bool:
        node = NodeRow(1, "box-1", 1, "online", "ready", agent_silent_since=NOW - timedelta(seconds=seconds))
        found = fleet_of(rows(nodes=[node]), {}, now=NOW, is_live=True)
        shown = values_of(found)[PUBLIC]["node.1.agent_silent"]
        assert shown == (found.clusters[0].nodes[0].agent_silent_since is not None)
        return bool(shown)

    assert (silent(14), silent(16)) == (False, True)


def test_a_worker_that_was_killed_counts_as_lost_until_it_answers_again() -> None:
    killed = worker("b", state="starting", restarts=1, reason="terminated by SIGKILL")
    for is_live in (True, False):
        fleet = fleet_of(rows(worker("a"), killed), {"a": beat()}, now=NOW, is_live=is_live)
        load = fleet.clusters[0].load
        assert (load.workers, load.ready, load.lost) == (2, 1, 1)
    reason = fleet.clusters[0].deployments[0].workers[1].reason
    assert reason == "terminated by SIGKILL"
    gave_up = fleet_of(rows(worker("b", state="failed")), {}, now=NOW, is_live=True)
    assert gave_up.clusters[0].load.lost == 1


def test_nobody_is_called_lost_while_heartbeats_are_not_known() -> None:
    fleet = fleet_of(rows(worker()), {}, now=NOW, is_live=False)
    assert fleet.clusters[0].load.lost == 0
    assert values_of(fleet)[PUBLIC]["live"] is False


def test_machines_in_trouble_stand_on_top() -> None:
    fleet = fleet_of(
        rows(worker("a", node=1), worker("b", node=2)),
        {"a": beat(), "b": beat(busy=1.0, full_seconds=90, unfinished_seconds=80)},
        now=NOW,
        is_live=True,
    )
    assert [node.row.name for node in fleet.clusters[0].nodes] == ["box-2", "box-1"]
    assert fleet.clusters[0].deployments[0].workers[1].reason == (
        "All of its 4 slots are busy, and no request has ended for 80 s."
    )


def test_a_worker_on_an_unknown_machine_is_not_forgotten() -> None:
    fleet = fleet_of(rows(worker(node=None)), {"chat-0": beat(busy=0.5)}, now=NOW, is_live=True)
    assert [one.row.name for one in fleet.clusters[0].unplaced] == ["chat-0"]
    assert fleet.clusters[0].load.busy == 0.5


def shared_and_own() -> FleetRows:
    return rows(
        worker("ours-0", deployment=1),
        worker("theirs-0", deployment=2),
        worker("hidden-0", deployment=3, node=3),
        clusters=[ClusterRow(1, "shared", None, ""), ClusterRow(2, "speech-only", SPEECH, "")],
        nodes=[NodeRow(1, "box-1", 1, "online", "ready"), NodeRow(3, "box-3", 2, "online", "ready")],
        deployments=[deployment(1), deployment(2, team=SPEECH), deployment(3, team=SPEECH, cluster=2)],
    )


def test_a_team_sees_shared_machines_whole_and_of_workers_only_its_own() -> None:
    beats = {"ours-0": beat(busy=0.0), "theirs-0": beat(busy=1.0), "hidden-0": beat()}
    whole = fleet_of(shared_and_own(), beats, now=NOW, is_live=True)
    seen = narrowed(whole, frozenset({PUBLIC, VISION}))
    assert [cluster.row.name for cluster in seen.clusters] == ["shared"]
    assert [one.row.name for one in seen.clusters[0].deployments] == ["d1"]
    assert [one.row.name for one in seen.clusters[0].nodes[0].workers] == ["ours-0"]
    assert seen.clusters[0].load.busy == 0.5
    assert seen.clusters[0].nodes[0].load.workers == 2


def test_what_goes_to_a_page_of_one_team_names_nothing_of_another() -> None:
    fleet = fleet_of(shared_and_own(), {}, now=NOW, is_live=True)
    parts = values_of(fleet)
    seen = parts[PUBLIC] | parts[VISION]
    assert not [path for path in seen if "theirs" in path or "hidden" in path or "speech" in path]
    assert "worker.theirs-0.busy" in parts[SPEECH]
    assert "cluster.speech-only.busy" in parts[SPEECH]


def heartbeat(**fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "worker": "chat-0",
        "deployment": "chat",
        "service": "chat",
        "version": "story:v1",
        "engine": "echo",
        "device": "cpu",
        "machine": "box-1",
        "address": "127.0.0.1",
        "port": 1,
        "pid": 7,
        "state": "ready",
        "started_at": 1.0,
        "at": 2.0,
    }
    return Heartbeat(**given | fields).to_dict()


def test_being_wholly_busy_counts_from_the_first_such_heartbeat_of_the_same_process() -> None:
    first = record_of(heartbeat(busy=1.0), None, now=100.0, turn=1)
    assert first["full_since"] == 100.0
    second = record_of(heartbeat(busy=1.0), first, now=101.0, turn=1)
    assert second["full_since"] == 100.0
    assert record_of(heartbeat(busy=0.9), second, now=102.0, turn=1)["full_since"] is None
    assert record_of(heartbeat(busy=1.0, pid=8), second, now=103.0, turn=1)["full_since"] == 103.0


def test_a_worker_whose_requests_end_is_never_long_without_an_end() -> None:
    def said(requests: int, *, in_flight: int = 4, pid: int = 7) -> dict[str, Any]:
        return heartbeat(busy=1.0, pid=pid, in_flight=in_flight, counters=Counters(requests=requests))

    first = record_of(said(5), None, now=100.0, turn=1)
    second = record_of(said(5), first, now=130.0, turn=1)
    assert (first["unfinished_since"], second["unfinished_since"]) == (100.0, 100.0)
    assert record_of(said(6), second, now=131.0, turn=1)["unfinished_since"] == 131.0
    assert record_of(said(5, in_flight=0), second, now=131.0, turn=1)["unfinished_since"] is None
    assert record_of(said(5, pid=8), second, now=131.0, turn=1)["unfinished_since"] == 131.0
    assert LastHeartbeat.of_record(second, age_seconds=0, now=190.0).unfinished_seconds == 90.0


def test_every_alert_is_one_entry_of_the_table() -> None:
    assert [one.alert for one in ALERTS] == [alert for alert in Alert if alert != Alert.NONE]
