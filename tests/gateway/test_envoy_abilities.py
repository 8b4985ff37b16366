"""Addresses of abilities at a real Envoy, with real workers behind them."""

import asyncio
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

import pytest

from common.fence import Fence
from gateway.routes import AbilityMember, AbilitySpec, RouteSpec, WorkerEndpoint
from perf.abilities import ask
from perf.envoy_stack import CANARY, STABLE, EnvoyStack, free_port
from perf.load import LoadClient
from tests.patience import eventually
from tests.serving.workers import RunningWorker, running

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
WORDS = AbilitySpec("words", (AbilityMember("chat", 4, CANARY.name),))
PATH = "/words/v1/completions"


def test_a_candidate_gets_its_share_by_ability_and_the_judge_counts_it(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release(25)
    at = WorkerEndpoint("127.0.0.1", stack.workers[STABLE.name][0].port, 4, STABLE)
    stack.gateway.set_target(WORDS.target, [at], observed_at=datetime.now(UTC))
    stack.gateway.set_abilities([WORDS], observed_at=datetime.now(UTC))
    eventually(lambda: bool(stack.gateway.ready(WORDS.target)))

    async def send(count: int) -> Counter[tuple[int, str]]:
        client = LoadClient(stack.layout.port)
        answers = [await client.get("/words/v1") for _ in range(count)]
        client.close()
        return Counter((one.status, one.version) for one in answers)

    sent = asyncio.run(send(200))
    assert set(sent) == {(200, STABLE.version), (200, CANARY.version)}
    assert 25 <= sent[200, CANARY.version] <= 80  # one in ten million by chance

    def counted() -> dict[str, int]:
        return {name: one.requests for name, one in stack.metrics.counts("chat").items()}

    wanted = {STABLE.name: sent[200, STABLE.version], CANARY.name: sent[200, CANARY.version]}
    eventually(lambda: counted() == wanted)
    eventually(lambda: stack.metrics.counts("chat")[CANARY.name].latency_ms[-1][1] == wanted[CANARY.name])
    assert stack.metrics.counts("chat")[CANARY.name].routed == 0

    stack.gateway.set_abilities([], observed_at=datetime.now(UTC))
    stack.gateway.set_abilities([WORDS], observed_at=datetime.now(UTC) - timedelta(minutes=1))
    assert stack.get("/words/v1").status == 404
    assert stack.get("/chat/v1").status == 200


def test_several_gateways_find_the_free_worker_and_leave_a_dead_one_alone(tmp_path: Path) -> None:
    with ExitStack() as open_ones:
        workers = [
            open_ones.enter_context(
                running(tmp_path / f"{n}.log", slots=1, port=free_port(), settings={"token_seconds": 0.1})
            )
            for n in range(3)
        ]
        for worker in workers:
            worker.until_ready()
        stacks = [EnvoyStack(tmp_path / str(number)) for number in range(2)]
        for stack in stacks:
            stack.log.parent.mkdir()
            open_ones.callback(stack.stop)
            stack.start()
            lead_to(stack, workers)
        first, second = (stack.layout.port for stack in stacks)

        async def beside_long_ones() -> list[float]:
            long = [asyncio.create_task(ask(first, PATH, 600)) for _ in range(2)]
            while sum(one.metric("slipway_worker_in_flight") for one in workers) < 2:
                await asyncio.sleep(0.02)
            took = [await ask(second, PATH, 1) for _ in range(6)]
            assert not any(one.done() for one in long)
            for one in long:
                one.cancel()
            return took

        # The second gateway does not know what the first one has sent.
        assert max(asyncio.run(beside_long_ones())) < 5
        eventually(lambda: not any(one.metric("slipway_worker_in_flight") for one in workers))

        gone = workers[0]
        port = gone.port
        gone.process.kill()
        gone.process.wait()

        async def in_turn() -> None:
            for _ in range(12):
                await ask(second, PATH, 1)

        asyncio.run(in_turn())
        with urlopen(f"http://127.0.0.1:{stacks[1].layout.admin_port}/clusters", timeout=5) as told:
            lines = told.read().decode().splitlines()
        failed = [
            line for line in lines if line.startswith(f"{WORDS.target}::127.0.0.1:{port}::cx_connect_fail")
        ]
        assert [line.rpartition("::")[2] for line in failed] == ["1"]


def lead_to(stack: EnvoyStack, workers: list[RunningWorker]) -> None:
    found = [WorkerEndpoint("127.0.0.1", one.port, 1, STABLE) for one in workers]
    for target in (STABLE.name, WORDS.target):
        stack.gateway.set_target(target, found, observed_at=datetime.now(UTC))
    stack.gateway.set_route(RouteSpec("chat", STABLE, None, 0), fence=Fence(1, 1))
    stack.gateway.set_abilities([WORDS], observed_at=datetime.now(UTC))
    eventually(lambda: len(stack.gateway.ready(WORDS.target)) == len(workers))
