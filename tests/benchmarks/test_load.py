"""The built-in load engine against a server whose timing is known, and its schedules against theory."""

import json
import math
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from statistics import correlation, median

import pytest

from benchmarks import figures
from benchmarks.load import course
from benchmarks.load.builtin import BuiltinEngine, processes
from benchmarks.load.engine import LoadTarget, TooFewCores
from benchmarks.load.max_rate import BrokenTargets
from benchmarks.load.prompts import TokenRatio
from benchmarks.load.records import RequestRecord, WindowRecord, read, write
from benchmarks.load.remote import ControlPlaneOrder
from benchmarks.load.scenario import LatencyTargets, LoadScenario, ScenarioFaults, TracedRequest, scenario_of
from benchmarks.load.schedule import schedule
from benchmarks.validity import violations
from common.jobs.remote import OrderRefused
from tests.benchmarks.scripted_server import Script, ScriptedServer, scripted_server

pytestmark = pytest.mark.process
"""They wait more than they compute."""
ASKED: dict[str, object] = {"requests": 60, "rates": [20], "input": 40, "output": 30}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as found:
        yield found


def measured(server: ScriptedServer, **asked: object) -> list[WindowRecord]:
    scenario = scenario_of({**ASKED, "arrivals": "constant", **asked})
    target = LoadTarget((server.url,), "chat:v1")
    found = course.windows(BuiltinEngine(), scenario, target, tell=lambda *_: None)
    return list(found)


def broken(server: ScriptedServer, **asked: object) -> set[str]:
    scenario = scenario_of({**ASKED, **asked})
    windows = measured(server, **{"arrivals": "poisson", **asked})
    return {
        one.rule for window in windows for one in violations(figures.summarise(window, scenario), scenario)
    }


@pytest.mark.parametrize("tokens_per_chunk", [1, 3])
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_ttft_and_tpot_are_those_of_the_server(
    server: ScriptedServer, tokens_per_chunk: int, api: str
) -> None:
    server.script = Script(ttft=0.2, tpot=0.02, tokens_per_chunk=tokens_per_chunk, role_chunk=api == "chat")
    (window,) = measured(server, api=api, requests=20, rates=[5], warm_up_requests=0)
    summary = figures.summarise(window, LoadScenario())
    true_ttft, true_tpot = (median(one[side] for one in server.truths) for side in (0, 1))
    assert summary.value("ttft_send_p50") == pytest.approx(true_ttft, rel=0.02)
    assert summary.value("tpot_p50") == pytest.approx(true_tpot, rel=0.02)
    assert (summary.value("ttft_p50") or 0) >= (summary.value("ttft_send_p50") or 0), "a late send counts"
    assert {one.output_tokens for one in window.requests} == {30}


def test_prompts_have_the_length_that_the_server_counts(server: ScriptedServer) -> None:
    server.script.tokens_per_word = 1.7
    (window,) = measured(server, input=300)
    assert sum(one.input_tokens or 0 for one in window.requests) == pytest.approx(300 * 60, rel=0.02)
    assert len({str(body["prompt"]) for body in server.bodies}) == server.asked, "no two prompts are alike"


def test_records_survive_being_written(server: ScriptedServer, tmp_path) -> None:
    found = measured(server)
    path = tmp_path / "records"
    with path.open("w") as file:
        write(found, file)
    assert read(path.read_text().splitlines()) == found
    words = set(str(server.bodies[-1]["prompt"]).split())
    assert not [word for word in words if f'"{word}"' in path.read_text()], "prompts are not kept"


def test_nothing_caps_what_is_in_flight(server: ScriptedServer) -> None:
    server.script = Script(ttft=0.5)
    measured(server, rates=[50], requests=50, warm_up_requests=0)
    assert server.most_in_flight > 20


def test_a_probe_sends_no_more_once_its_targets_are_broken() -> None:
    targets = LatencyTargets(ttft_ms=150)
    scenario = LoadScenario(arrivals="constant", requests=200, targets=targets)
    broken = BrokenTargets(partial(figures.is_within, targets=targets), targets.share)
    with scripted_server(Script(ttft=0.02, tpot=0.0, slots=1)) as server:
        target = LoadTarget((server.url,), "chat:v1")
        window = BuiltinEngine().measure(scenario, target, TokenRatio(), rate=80, window=0, broken=broken)
    assert 20 <= len(window.requests) < 150
    assert all(one.is_good for one in window.requests), "what was sent is waited for"
    assert window.seconds == pytest.approx(len(window.requests) / 80), "figures are of what was sent"


def test_a_closed_loop_keeps_its_number_in_flight(server: ScriptedServer) -> None:
    measured(server, arrivals="concurrency", rates=[4], requests=40, warm_up_requests=0)
    assert server.most_in_flight == 4


def test_errors_and_timeouts_are_told_by_kind(server: ScriptedServer) -> None:
    server.script = Script(refuse_every=10)
    (window,) = measured(server)
    assert figures.summarise(window, LoadScenario()).errors == {"http 503": 6}
    server.script = Script(stall_after=2)
    (window,) = measured(server, timeout_seconds=0.5, requests=5, warm_up_requests=0)
    assert {one.error for one in window.requests} == {"timeout"}


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        (Script(tpot=0.001, ends_early=True), "outputs"),
        (Script(tpot=0.001, counts=False), "tokens"),
        (Script(tpot=0.001, caches_prefix=0.5), "cache"),
        (Script(tpot=0.001, slower_by=0.04), "saturation"),
        (Script(ttft=0.12, tpot=0.001, slots=1), "saturation"),
    ],
)
def test_each_trap_is_caught(script: Script, rule: str) -> None:
    with scripted_server(script) as server:
        assert rule in broken(server, requests=40, warm_up_requests=0)


def test_a_good_run_breaks_nothing_but_what_a_busy_machine_does(server: ScriptedServer) -> None:
    server.script = Script(tpot=0.001)
    assert broken(server) <= {"lateness", "client"}


def test_a_cap_that_holds_requests_back_is_caught() -> None:
    """30 requests a second asked for, 8 sent, by records as a capped client would leave them."""
    scenario = LoadScenario(rates=(30.0,), requests=120)
    window = WindowRecord(window=0, rate=30, seconds=4.0, began_at=0)
    for planned in schedule(scenario, 30):
        sent = max(planned.at, planned.number / 8)
        window.requests.append(answered(planned.number, planned.at, sent))
    found = {one.rule for one in violations(figures.summarise(window, scenario), scenario)}
    assert {"offered", "lateness"} <= found
    window.client_cpu, window.restarts = 0.95, 1
    found = {one.rule for one in violations(figures.summarise(window, scenario), scenario)}
    assert {"client", "restarts"} <= found
    for one in window.requests:
        one.input_tokens = 2 * one.asked_input
    found = {one.rule for one in violations(figures.summarise(window, scenario), scenario)}
    assert "prompts" in found, "lengths by a tokenizer that is not the server's"


def answered(number: int, scheduled: float, sent: float) -> RequestRecord:
    first, last = sent + 0.05, sent + 0.15
    return RequestRecord(
        window=0, number=number, scheduled=scheduled, sent=sent, first=first, last=last, ended=last,
        input_tokens=128, asked_input=128, output_tokens=64, asked_output=64, chunks=64,
    )  # fmt: skip


def test_poisson_arrivals_pass_kolmogorov_and_smirnov_and_do_not_correlate() -> None:
    planned = schedule(LoadScenario(requests=5000, seed=3), 10.0)
    gaps = [after.at - before.at for before, after in pairwise(planned)]
    ordered = sorted(gaps)
    distance = max(
        abs((place + 1) / len(gaps) - (1 - math.exp(-10 * gap))) for place, gap in enumerate(ordered)
    )
    assert distance < 1.36 / math.sqrt(len(gaps))
    assert abs(correlation(gaps[:-1], gaps[1:])) < 3 / math.sqrt(len(gaps))


def test_the_same_seed_gives_the_same_schedule_and_another_window_another_one() -> None:
    scenario = LoadScenario(arrivals="gamma", burstiness=4, requests=200)
    assert schedule(scenario, 5) == schedule(scenario, 5)
    assert not {one.seed for one in schedule(scenario, 5)} & {
        one.seed for one in schedule(scenario, 5, window=1)
    }
    seconds = LoadScenario(requests=None, seconds=50)
    assert len(schedule(seconds, 20)) == pytest.approx(1000, rel=0.1)


def test_a_trace_keeps_its_proportions_at_the_rate_of_the_window() -> None:
    trace = tuple(TracedRequest(at, 10, 5) for at in (0.0, 1.0, 4.0))
    planned = schedule(LoadScenario(arrivals="trace", trace=trace), 4.0)
    assert [one.at for one in planned] == pytest.approx([0, 0.125, 0.5])


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"targets": {"ttft_ms": 0}}, "targets.ttft_ms"),
        ({"arrivals": "trace", "trace": [{"at": 2, "input_tokens": 1, "output_tokens": 1},
                                         {"at": 1, "input_tokens": 1, "output_tokens": 1}]}, "trace.1.at"),
        ({"rates": []}, "rates"),
        ({"rates": "5"}, "rates"),
        ({"dataset": "sharegpt"}, "dataset"),
        ({"input": {"kind": "histogram"}}, "input.bins"),
        ({"find_max_rate": True}, "find_max_rate"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_its_field(given: dict, field: str) -> None:
    with pytest.raises(ScenarioFaults) as refused:
        scenario_of(given)
    assert field in refused.value.fields


def test_a_rate_that_this_machine_cannot_make_is_refused() -> None:
    scenario = LoadScenario(rates=(5000.0,))
    assert processes(scenario, 100.0, cores=4) == 1
    with pytest.raises(TooFewCores):
        processes(scenario, 5000.0, cores=4)


def test_two_processes_share_a_window(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.load.builtin.processes", lambda *_: 2)
    (window,) = measured(server, requests=40)
    assert [one.number for one in window.requests] == list(range(40))
    assert all(one.is_good for one in window.requests)


def test_a_generator_in_a_cluster_asks_again_until_it_is_refused_for_good(tmp_path: Path) -> None:
    answers = iter([(503, b"busy"), (200, b'{"model": "chat:v1"}'), (503, b""), (204, b""), (409, b"over")])
    asked: list[tuple[str, str, bytes]] = []

    class Answers(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            assert self.headers["Authorization"] == "Bearer sesame"
            asked.append((self.command, self.path, body))
            status, content = next(answers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = handle_any

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    (tmp_path / "records").write_bytes(b"gz")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "input").write_text(
            json.dumps({"url": f"http://127.0.0.1:{server.server_port}/", "token": "sesame"})
        )
        control_plane = ControlPlaneOrder.of_file(tmp_path / "input")
        assert control_plane.read() == {"model": "chat:v1"}
        with pytest.raises(OrderRefused, match="409: over"):
            control_plane.hand_in(tmp_path / "records", {"summaries": []})
        server.shutdown()
    paths = [path.removeprefix("/api/v1/benchmark-load/") for _, path, _ in asked]
    assert paths == ["", "", "records/", "records/", "result/"]
    assert asked[2][2] == b"gz"
