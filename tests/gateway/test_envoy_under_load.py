"""Clients of a real Envoy while everything around it changes."""

import asyncio
import time
from urllib.request import urlopen

import pytest

from common.fence import Fence
from gateway.latency import Histogram, quantile_ms, total
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from perf.load import LoadAnswer, LoadClient, LoopingClients
from perf.upstream import Upstream
from tests.patience import eventually

pytestmark = pytest.mark.stack

SHORT, STREAM = "/chat/v1", "/chat/v1/stream?chunks=20&every_ms=100"


@pytest.mark.slow
async def test_a_hundred_weight_changes_under_load_fail_no_request(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target, 2)
    stack.release()
    load = LoopingClients(stack.layout.port)
    load.add(SHORT, clients=4, pause_ms=5)
    load.add(STREAM, clients=12)
    # Longer than the 15 s after which Envoy by default gives up on an answer.
    silent = asyncio.create_task(LoadClient(stack.layout.port).get("/chat/v1/slow?ms=16000"))
    waits = []
    for change in range(100):
        percent = 0 if change % 2 else 100
        side = CANARY.version if percent else STABLE.version
        asked_at = time.perf_counter()
        await asyncio.to_thread(stack.reweigh, percent, fence=Fence(1, change + 2))
        waits.append(await first_on(side, load, after=asked_at) - asked_at)
        await asyncio.sleep(max(0.0, 0.2 - (time.perf_counter() - asked_at)))
    await load.finish()
    assert load.failures == []
    assert (await silent).status == 200
    streams = [answer for path, answer in load.answers if path == STREAM]
    assert len(streams) >= 100
    assert {len(answer.body) for answer in streams} == {20 * len(STABLE.version)}
    assert len(load.answers) > 500
    # Beside what a request alone took at worst: how busy the machine is says nothing about changes.
    slowest = max(answer.ended_at - answer.sent_at for path, answer in load.answers if path == SHORT)
    assert max(waits) < 2 + 4 * slowest, f"slowest change reached a client after {max(waits):.2f} s"


async def first_on(side: str, load: LoopingClients, *, after: float) -> float:
    """When the first short request that was sent after `after` came back from `side`."""
    looked_at = max(0, len(load.answers) - 200)
    while True:
        while looked_at < len(load.answers):
            path, answer = load.answers[looked_at]
            looked_at += 1
            if path == SHORT and answer.version == side and answer.sent_at >= after:
                return answer.ended_at
        await asyncio.sleep(0.002)
        assert time.perf_counter() - after < 60, f"nothing came from {side}"


async def test_a_worker_that_is_taken_out_finishes_its_streams(stack: EnvoyStack) -> None:
    first, second = stack.run_workers(STABLE, 2)
    stack.run_workers(CANARY)
    stack.release()
    eventually(lambda: len(stack.gateway.ready(STABLE.name)) == 2)
    load = LoopingClients(stack.layout.port)
    load.add(STREAM, clients=8)
    await until_served(8, first, second)
    await asyncio.to_thread(stack.tell_endpoints, STABLE, without=first)
    later = LoopingClients(stack.layout.port)
    later.add(SHORT, clients=4)
    before = await until_left_alone(first, later)
    await load.finish()
    await later.finish()
    assert load.failures == later.failures == []
    assert {answer.status for _, answer in load.answers} == {200}
    # Streams that the clients began anew went to the other worker, too.
    assert await requests_of(first) == before
    assert await requests_of(second) > before


async def until_left_alone(worker: Upstream, load: LoopingClients) -> int:
    """Return the number of requests when no more arrive, though the load goes on.

    Requests that Envoy had assigned to it may still be on their way.
    """
    for _ in range(10):
        served = await requests_of(worker)
        await until_answered(load, 100)
        if await requests_of(worker) == served:
            return served
    raise AssertionError(f"{worker.name} at {worker.port} still gets requests")


async def until_served(requests: int, *workers: Upstream) -> None:
    """Wait until so many requests have reached the workers: the gateway counts them before."""

    def have() -> bool:
        return sum(int(worker.get("/served")) for worker in workers) >= requests

    await asyncio.to_thread(eventually, have)


async def until_answered(load: LoopingClients, more: int) -> None:
    """Wait for so many more requests of the load; a second at least."""
    enough = len(load.answers) + more
    await asyncio.sleep(1)
    await asyncio.to_thread(eventually, lambda: len(load.answers) >= enough)


async def requests_of(worker: Upstream) -> int:
    client = LoadClient(worker.port)
    try:
        return int((await client.get("/served")).body)
    finally:
        client.close()


async def test_a_worker_killed_under_load_fails_only_what_was_in_flight_on_it(stack: EnvoyStack) -> None:
    victim, *_ = stack.run_workers(STABLE, 3)
    stack.run_workers(CANARY)
    stack.release()
    eventually(lambda: len(stack.gateway.ready(STABLE.name)) == 3)
    load = LoopingClients(stack.layout.port)
    load.add(SHORT, clients=6, pause_ms=2)
    load.add(STREAM, clients=6)
    await until_answered(load, 200)
    clients_at_once = 12
    victim.kill()
    await until_answered(load, 800)
    await load.finish()
    # At most one request per client can have been on the victim; later ones find it refusing and are retried.
    assert len(load.failures) <= clients_at_once / 3 + 2, load.failures
    # Cut off before its headers, Envoy answers 502 or 503; after them, the answer breaks off.
    broken = ("502", "503", "IncompleteReadError", "ConnectionResetError")
    assert [failure for failure in load.failures if not any(word in failure for word in broken)] == []

    def errors() -> int:
        return stack.metrics.counts("chat")[STABLE.name].errors

    await asyncio.to_thread(eventually, lambda: errors() >= len(load.failures))
    assert errors() == len(load.failures)


async def test_what_waited_at_a_killed_worker_is_answered_and_what_had_begun_is_not_begun_again(
    stack: EnvoyStack,
) -> None:
    victim, survivor = stack.run_workers(STABLE, 2)
    stack.run_workers(CANARY)
    stack.release()
    eventually(lambda: len(stack.gateway.ready(STABLE.name)) == 2)

    async def one(path: str) -> LoadAnswer:
        client = LoadClient(stack.layout.port)
        answer = await client.get(path)
        client.close()
        return answer

    wait, slow = "/chat/v1/wait?ms=600000", "/chat/v1/slow?ms=600000"
    asked: dict[str, list[asyncio.Task[LoadAnswer]]] = {wait: [], slow: []}
    for number, path in enumerate((wait, wait, slow, slow) * 4):  # one by one: both workers get some of both
        asked[path].append(asyncio.create_task(one(path)))
        await until_served(number + 1, victim, survivor)
    on_the_victim, on_the_survivor = await requests_of(victim), await requests_of(survivor)
    assert on_the_victim + on_the_survivor == 16
    victim.kill()
    await say(survivor, "go=1")
    waiting, begun = [[answer.status for answer in await asyncio.gather(*asked[path])] for path in asked]
    assert waiting == [200] * 8
    assert set(begun) == {200, 502}
    had_only_waited = on_the_victim - begun.count(502)
    assert had_only_waited > 0
    assert await requests_of(survivor) == on_the_survivor + had_only_waited


async def test_the_first_byte_is_the_answers_and_not_the_word_that_work_has_begun(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release()
    client = LoadClient(stack.layout.port)
    assert (await client.get("/chat/v1/slow?ms=500")).status == 200
    client.close()

    def seen() -> Histogram:
        return stack.metrics.counts("chat")[STABLE.name].first_byte_ms

    await asyncio.to_thread(eventually, lambda: total(seen()) == 1)
    first_byte = quantile_ms(seen(), 1)
    assert first_byte
    assert first_byte >= 500


async def test_a_worker_that_says_it_is_not_ready_gets_nothing_until_it_is(stack: EnvoyStack) -> None:
    tired, fresh = stack.run_workers(STABLE, 2)
    stack.run_workers(CANARY)
    stack.release()
    eventually(lambda: len(stack.gateway.ready(STABLE.name)) == 2)
    load = LoopingClients(stack.layout.port)
    load.add(SHORT, clients=4, pause_ms=5)
    await say(tired, "health=503")
    await until_ready(stack, {fresh.port})
    served = await until_left_alone(tired, load)
    await say(tired, "health=200")
    await until_ready(stack, {tired.port, fresh.port})
    await asyncio.to_thread(eventually, lambda: int(tired.get("/served")) > served)
    await load.finish()
    assert load.failures == []


async def test_a_worker_that_fails_everything_is_left_out_while_others_serve(stack: EnvoyStack) -> None:
    sick, *_ = stack.run_workers(STABLE, 3)
    stack.run_workers(CANARY)
    stack.release()
    eventually(lambda: len(stack.gateway.ready(STABLE.name)) == 3)
    load = LoopingClients(stack.layout.port)
    load.add(SHORT, clients=6, pause_ms=2)
    await until_answered(load, 100)
    await say(sick, "broken=1")
    await until_answered(load, 300)
    await load.finish()
    # Ten in a row, and what was under way on it meanwhile.
    assert 10 <= len(load.failures) <= 40


async def test_the_only_worker_of_a_target_is_never_left_out_for_its_errors(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release(100)
    await say(stack.workers[CANARY.name][0], "broken=1")
    client = LoadClient(stack.layout.port)
    answers = [await client.get(SHORT) for _ in range(60)]
    client.close()
    assert {answer.status for answer in answers} == {500}


async def test_a_worker_that_died_gets_nothing_after_its_first_failed_connection(stack: EnvoyStack) -> None:
    gone, other = stack.run_workers(STABLE, 2)
    stack.release()
    eventually(lambda: len(stack.gateway.ready(STABLE.name)) == 2)
    gone.kill()
    client = LoadClient(stack.layout.port)
    answers = [await client.get(SHORT) for _ in range(20)]
    client.close()
    assert {answer.status for answer in answers} == {200}
    with urlopen(f"http://127.0.0.1:{stack.layout.admin_port}/clusters", timeout=5) as told:
        figures = told.read().decode()
    failed = [line for line in figures.splitlines() if f":{gone.port}::cx_connect_fail::" in line]
    assert [line.rpartition("::")[2] for line in failed] == ["1"]
    assert other.get("/served") == b"20"


async def test_requests_go_to_the_worker_with_the_fewest_in_flight(stack: EnvoyStack) -> None:
    stack.run_workers(STABLE, 4)
    stack.run_workers(CANARY)
    stack.release()
    eventually(lambda: len(stack.gateway.ready(STABLE.name)) == 4)

    async def one() -> LoadAnswer:
        client = LoadClient(stack.layout.port)
        answer = await client.get("/chat/v1/slow?ms=600000")
        client.close()
        return answer

    workers, tasks = stack.workers[STABLE.name], []
    for number in range(12):
        tasks.append(asyncio.create_task(one()))
        await until_served(number + 1, *workers)
    assert [await requests_of(worker) for worker in workers] == [3, 3, 3, 3]
    for worker in workers:
        await say(worker, "go=1")
    assert {answer.status for answer in await asyncio.gather(*tasks)} == {200}


async def test_the_gateway_serves_on_when_nobody_writes(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release(100)
    stack.layout.state.unlink()
    client = LoadClient(stack.layout.port)
    assert (await client.get(SHORT)).version == CANARY.version
    client.close()


async def say(worker: Upstream, what: str) -> None:
    client = LoadClient(worker.port)
    await client.get(f"/set?{what}")
    client.close()


async def until_ready(stack: EnvoyStack, ports: set[int]) -> None:
    deadline = time.monotonic() + 60
    while {one.port for one in await asyncio.to_thread(stack.gateway.ready, STABLE.name)} != ports:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
