"""AIPerf as the load engine, held against the built-in one on a server whose timing is known. Its environment
is made where there is none: 1.2 GB from a package index."""

import json
from pathlib import Path
from statistics import median, quantiles

import pytest

from benchmarks.figures import summarise
from benchmarks.load import course
from benchmarks.load.aiperf import AiperfEngine, UnfitScenario, environment, workers
from benchmarks.load.engine import LoadTarget, TooFewCores
from benchmarks.load.prompts import TokenRatio
from benchmarks.load.scenario import LoadScenario, scenario_of
from tests.benchmarks.scripted_server import Script, scripted_server


@pytest.fixture(scope="module")
def engine(environments: Path, tmp_path_factory: pytest.TempPathFactory) -> AiperfEngine:
    return AiperfEngine(environments, tmp_path_factory.mktemp("aiperf"))


@pytest.mark.slow
@pytest.mark.parametrize(("api", "tokens_per_chunk"), [("completions", 1), ("chat", 3)])
def test_it_measures_the_servers_own_ttft_and_tpot(
    engine: AiperfEngine, api: str, tokens_per_chunk: int
) -> None:
    asked = {"api": api, "rates": [5], "requests": 40, "input": 40, "output": 30, "arrivals": "constant"}
    scenario = scenario_of({**asked, "warm_up_requests": 0})
    script = Script(ttft=0.4, tpot=0.02, tokens_per_chunk=tokens_per_chunk, role_chunk=api == "chat")
    with scripted_server(script) as server:
        target = LoadTarget((server.url,), "chat:v1")
        (window,) = course.windows(engine, scenario, target, tell=lambda *_: None)
        # Sends of a generator that a busy machine starves come late: the quarter that it disturbed least.
        true_ttft = quantiles([ttft for ttft, _tpot in server.truths])[0]
        true_tpot = median(tpot for _ttft, tpot in server.truths)
        bodies = [body for body in server.bodies if body.get("ignore_eos")]
    summary = summarise(window, scenario)
    ttfts = [((one.first or 0) - one.sent) * 1000 for one in window.requests]
    assert quantiles(ttfts)[0] == pytest.approx(true_ttft, rel=0.02)
    assert summary.value("tpot_p50") == pytest.approx(true_tpot, rel=0.02)
    assert {one.output_tokens for one in window.requests} == {30}, "as the server counts them"
    assert set(server.chosen_by) == {"client"}, "no release judges a version by them"
    assert len(bodies) == 40
    assert summary.value("input_rate") == pytest.approx(40 * 5, rel=0.1), "our prompts, by the server's count"


@pytest.mark.slow
def test_errors_and_requests_in_flight_are_those_of_our_engine(engine: AiperfEngine, tmp_path: Path) -> None:
    scenario = scenario_of(
        {"arrivals": "concurrency", "rates": [4], "requests": 40, "input": 20, "output": 8}
    )
    with scripted_server(Script(ttft=0.05, refuse_every=10)) as server:
        target = LoadTarget((server.url,), "chat:v1")
        window = engine.measure(scenario, target, TokenRatio(), rate=4, window=0)
        assert server.most_in_flight == 4
    assert summarise(window, scenario).errors == {"http 503": 4}
    assert window.client_cpu > 0


def test_what_it_cannot_send_is_refused() -> None:
    endless = LoadScenario(arrivals="concurrency", requests=None, seconds=5)
    with pytest.raises(UnfitScenario):
        AiperfEngine.check(AiperfEngine.__new__(AiperfEngine), endless)
    assert workers(LoadScenario(rates=(20.0,)), 20, cores=2) == 1
    with pytest.raises(TooFewCores):
        workers(LoadScenario(rates=(1000.0,)), 1000, cores=4)


def test_its_lock_has_a_hash_for_each_package() -> None:
    lines = environment().lock.splitlines()
    assert "aiperf==0.13.0" in {line.partition(" ")[0] for line in lines}
    assert all(" --hash=sha256:" in line for line in lines), json.dumps(lines[:3])
