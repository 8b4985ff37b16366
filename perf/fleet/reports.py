"""Agents that report their machines once a second, as `serving.node_agent` does, and what that costs."""

import asyncio
import json
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import orjson

from perf.fleet.served import PROJECT, ServedFleet, served_fleet
from perf.required import RequiredFigure, at_most
from serving.protocol import MAX_WORKERS_PER_REPORT, Counters, Heartbeat, Latency, WorkerState

WORKERS_OF_A_MACHINE = 8
FEW, MANY = 1_000, 10_000
MOST_CPU = 0.4
"""CPU seconds per second for MANY workers."""
WARM_UP_SECONDS = 12.0
NODE_REPORTS, HEARTBEATS = "/api/v1/node-reports/", "/api/v1/heartbeats/"


def figures(seconds: float) -> Iterator[RequiredFigure]:
    """Yield the CPU that reports of few and of many workers cost, without pages."""
    cpu, each = {}, {}
    for workers in (FEW, MANY):
        machines = workers // WORKERS_OF_A_MACHINE
        with (
            served_fleet(machines=machines, workers_per_machine=WORKERS_OF_A_MACHINE) as fleet,
            reporting(fleet, workers_per_machine=WORKERS_OF_A_MACHINE) as reported,
        ):
            time.sleep(WARM_UP_SECONDS)
            before, sent, began = fleet.cpu_seconds(), reported(), time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            cpu[workers] = (fleet.cpu_seconds() - before) / took
            rate = (reported() - sent) * WORKERS_OF_A_MACHINE / took
        yield RequiredFigure(f"{workers:,} workers, heartbeats accepted per second", f"{rate:,.0f}")
        each[workers] = cpu[workers] / rate
        yield RequiredFigure("  CPU us per heartbeat", f"{each[workers] * 1e6:.0f}")
    yield RequiredFigure(f"{MANY:,} workers, CPU s per second as they came", f"{cpu[MANY]:.2f}")
    # On a full machine fewer heartbeats come than are due: those that did not come cost, too.
    yield at_most("  at one heartbeat a second", each[MANY] * MANY, MOST_CPU)
    yield at_most(f"  per heartbeat, {MANY:,} over {FEW:,}", each[MANY] / each[FEW], 1.0)


@contextmanager
def reporting(fleet: ServedFleet, *, workers_per_machine: int) -> "Iterator[ReportCount]":
    """Report all machines once a second, from a process of its own, until the end of the block."""
    with _reporting(fleet, NODE_REPORTS, fleet.agents, workers_per_machine) as count:
        yield count


@contextmanager
def reporting_together(fleet: ServedFleet) -> "Iterator[ReportCount]":
    """Report the workers of machines with one each in few messages: for figures of who watches."""
    count = -(-len(fleet.agents) // MAX_WORKERS_PER_REPORT)
    with _reporting(fleet, HEARTBEATS, [fleet.reporter] * count, len(fleet.agents) // count) as counted:
        yield counted


@contextmanager
def _reporting(
    fleet: ServedFleet, path: str, tokens: list[str], workers_per_token: int
) -> "Iterator[ReportCount]":
    command = [sys.executable, "-m", __name__, str(fleet.port), path, str(workers_per_token)]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(tokens) + "\n")
            process.stdin.flush()
            yield ReportCount(process)
        finally:
            process.terminate()


class ReportCount:
    """The number of reports that the server has accepted so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __call__(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("The process that reports has ended.")
        return int(line)


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body = await reader.readexactly(length)
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise RuntimeError((head + body).decode())
    return body


def heartbeat_of(worker: str) -> Heartbeat:
    """Return the heartbeat of a worker that serves a language model."""
    lengths = tuple(range(20))
    return Heartbeat(
        worker=worker,
        deployment="chat",
        service="chat",
        version="m:v1",
        engine="echo",
        device="cuda:0",
        machine="box",
        address="10.0.0.1",
        port=20_000,
        pid=1,
        state=WorkerState.READY,
        slots=8,
        abilities=("chat", "completions"),
        counters=Counters(requests=1, prompt_tokens=100, completion_tokens=100),
        ttft=Latency(p50_ms=120.0, p95_ms=340.0, count=60),
        tpot=Latency(p50_ms=12.0, p95_ms=21.0, count=60),
        prompt_lengths=lengths,
        answer_lengths=lengths,
        started_at=time.time(),
        at=time.time(),
    )


async def _report_for_ever(
    port: int, path: str, token: str, machine: int, workers: range, accepted: list[int]
) -> None:
    """Report all these workers once a second, on one connection."""
    rng = random.Random(machine)
    await asyncio.sleep(rng.random())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    documents = [heartbeat_of(f"chat-{number}").to_dict() for number in workers]
    session, sequence = secrets.token_hex(8), 0
    due = time.monotonic()
    while True:
        sequence += 1
        for one in documents:
            in_flight = rng.randrange(9)
            one |= {"busy": rng.random(), "in_flight": in_flight, "at": time.time()}
            one["counters"]["requests"] += in_flight
            one["ttft"]["p95_ms"] = 300 + 10 * in_flight
        # By it a page can tell how late it is (`perf.fleet.watchers`).
        documents[0]["queue_depth"] = round(time.time() * 1000)
        report = {"node": f"box-{machine}", "session": session, "sequence": sequence, "devices": []}
        body = orjson.dumps({"workers": documents} | (report if path == NODE_REPORTS else {}))
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = orjson.loads(await _answer(reader))
        if answer["refused"]:
            raise RuntimeError(answer)
        accepted[0] += 1
        due = max(due + 1, time.monotonic())
        await asyncio.sleep(due - time.monotonic())


async def _report_all(port: int, path: str, workers_per_token: int) -> None:
    loop = asyncio.get_running_loop()
    tokens = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    accepted = [0]
    async with asyncio.TaskGroup() as tasks:
        for machine, token in enumerate(tokens):
            workers = range(machine * workers_per_token, (machine + 1) * workers_per_token)
            tasks.create_task(_report_for_ever(port, path, token, machine, workers, accepted))
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(accepted[0], flush=True)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_report_all(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
