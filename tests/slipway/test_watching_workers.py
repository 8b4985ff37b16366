"""`slipway top` and `slipway logs`: workers from a terminal."""

from typing import Any

import httpx2
import pytest
from django.utils import timezone

from accounts.states import Role
from clusters.history import MinuteFigures, packed_minute
from clusters.models import Deployment, FleetMinute, Worker
from slipway.cli import main
from slipway.cli.context import CliEnvironment
from slipway.cli.nouns.logs import fresh
from tests.cast import person, team, token_of
from tests.clusters.test_fleet import beat
from tests.clusters.world import version_of
from tests.gateway.cast import cluster
from tests.slipway.conftest import Terminal


@pytest.fixture
def olga(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    row = Deployment.objects.create(
        name="chat-1",
        cluster=cluster(),
        team=team("speech"),
        service="chat",
        version=version_of(team("speech"), "chat:v1"),
        version_label="chat:v1",
        engine="app",
        replicas=2,
        slots=4,
        observed_at=timezone.now(),
    )
    heard: dict[str, Any] = {}
    for name, in_flight in (("chat-1-0", 1), ("chat-1-1", 3)):
        now = timezone.now()
        Worker.objects.create(deployment=row, uid=name, name=name, state="ready", state_since=now)
        heard[name] = beat(in_flight=in_flight, slots=4, busy=in_flight / 4)
    monkeypatch.setattr("clusters.heartbeat_records.latest", lambda *_args: heard)
    terminal.token = token_of(person("olga", speech=Role.OPERATOR))
    return terminal


def test_top_lists_the_busiest_worker_first(olga: Terminal) -> None:
    rows = olga("--output", "json", "top", "--service", "chat").document

    assert [(row["name"], row["busy"], row["in_flight"]) for row in rows] == [
        ("chat-1-1", 0.75, 3),
        ("chat-1-0", 0.25, 1),
    ]
    assert "75%" in olga("top").out
    assert olga("--output", "json", "top", "--service", "other").document == []


def test_history_sums_up_a_workers_minutes_and_has_each_of_them_as_json(olga: Terminal) -> None:
    minute = int(timezone.now().timestamp() // 60) - 5
    for ago, busy in enumerate((0.75, 0.25)):
        minutes = {"worker:chat-1-0": MinuteFigures(busy=busy).row}
        FleetMinute.objects.create(minute=minute - ago, packed=packed_minute(minutes))

    (line,) = [one for one in olga("history", "worker", "chat-1-0").out.splitlines() if "Busy" in one]
    assert line.split()[2:] == ["75.0%", "25.0%", "75.0%"]
    document = olga("--output", "json", "history", "worker", "chat-1-0", "--range", "1h").document
    known = [one for one in document["charts"][0]["lines"][0]["values"] if one is not None]
    assert known == [0.25, 0.75]


def test_logs_are_followed_searched_and_named_by_worker(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_TOKEN", "slp_x")
    written = {"a": ["one", "two \x1b[31m"], "b": ["one"]}
    waits = iter(range(2))

    def answer(request: httpx2.Request) -> httpx2.Response:
        name = request.url.path.split("/")[-3]
        return httpx2.Response(200, json={"worker": name, "log": "\n".join(written[name])})

    def meanwhile(_seconds: float) -> None:
        if next(waits, None) is None:
            raise KeyboardInterrupt
        written["a"].append("two again")

    outside = CliEnvironment(transport=httpx2.MockTransport(answer), sleep=meanwhile)
    with pytest.raises(SystemExit) as ended:
        main(["logs", "a", "b", "--follow", "--grep", "two"], outside=outside)

    assert ended.value.code == 130
    assert capsys.readouterr().out.splitlines() == [
        "a: two \N{REPLACEMENT CHARACTER}[31m",
        *["a: two again"] * 2,
    ]


def test_a_log_that_was_cut_at_its_begin_goes_on_where_it_was() -> None:
    assert fresh(["1", "2", "3"], ["2", "3", "4"]) == ["4"]
    assert fresh(["1", "2"], ["8", "9"]) == ["8", "9"]
    assert fresh(["1", "2"], ["1", "2"]) == []
