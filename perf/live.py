"""How many pages one web process keeps live: `python -m perf.live [--workers 100] [--watchers 100 500 1000]`.

A real web process (uvicorn) with a real Valkey and SQLite in a temporary home; workers that report once a
second, each with a POST of its own or all of a machine (10) in one; pages on `/ws/fleet/`, in processes of
their own. Delay: from the moment a worker reports to the moment a page has the value; it includes the ticks
(0.5 s for the heartbeats of a process, 1 s for the board: 0.75 s in the mean). Spread: from the first page
to the last that gets the same frame: the cost of the fan-out. CPU: of the web process, in percent of a core.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import websockets

from tests.valkey import ValkeyServer

PER_MACHINE = 10
PEOPLE = 200
WATCHERS_PER_PROCESS = 250
RAMP_SECONDS = 0.04
"""Between two pages of a process that open: they are to be there, not to arrive, when it counts."""
PROJECT = Path(__file__).resolve().parent.parent
STAMP = re.compile(r'queue_depth":(\d{13})')
Frame = tuple[int, float, float]
"""(seq, seconds since 1970 when it came, delay in seconds of the freshest value in it)."""


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(round(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def prepare(workers: int) -> list[str]:
    """Rows for the workers; returns a token that reports, and one for each of many people who look."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.utils import timezone

    from accounts.models import Team
    from accounts.services.people import create_user
    from accounts.services.tokens import create_token
    from accounts.states import Right, Role
    from clusters.models import Cluster, Deployment, Node, Worker
    from common.actor import Actor
    from models_registry.models import Model, Version

    call_command("migrate", verbosity=0)
    actor = Actor.system("perf")
    team = Team.objects.create(name="perf")
    version = Version.objects.create(model=Model.objects.create(team=team, name="m"), number=1, name="v1")
    cluster = Cluster.objects.create(name="perf", kind="embedded", team=team)
    now = timezone.now()
    row = Deployment.objects.create(
        name="chat",
        cluster=cluster,
        team=team,
        service="chat",
        version=version,
        version_label="m:v1",
        engine="echo",
        replicas=workers,
        slots=4,
    )
    nodes = [
        Node(cluster=cluster, uid=f"box-{number}", name=f"box-{number}", seen_at=now)
        for number in range(-(-workers // 10))
    ]
    Node.objects.bulk_create(nodes)
    Worker.objects.bulk_create(
        Worker(
            deployment=row,
            name=f"chat-{number}",
            uid=f"chat-{number}",
            node=nodes[number // PER_MACHINE],
            pid=1,
            state="ready",
            state_since=now,
        )
        for number in range(workers)
    )

    def token(name: str, right: Right) -> str:
        owner = create_user(actor=actor, username=name, team=team, role=Role.OPERATOR)
        return create_token(actor=actor, owner=owner, name="perf", scopes=[right]).text

    return [token("workers", Right.FLEET_REPORT), *(token(f"p{n}", Right.READ) for n in range(PEOPLE))]


@contextmanager
def web_process() -> Iterator[tuple[psutil.Process, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)]
    command += ["--http", "controlplane.connections:Bounded"]
    command += ["--no-access-log", "--log-level", "error", "--ws-per-message-deflate", "false"]
    with subprocess.Popen(command, cwd=PROJECT) as process:
        try:
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield psutil.Process(process.pid), port
        finally:
            process.terminate()


async def report(port: int, token: str, worker_names: list[str], busy_seed: int) -> None:
    """Once a second, on one connection, all of these workers; `queue_depth` carries the time in ms."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep((busy_seed * 0.618) % 1)
    beat = 0
    while True:
        beat += 1
        began = time.monotonic()
        body = json.dumps(
            {"workers": [heartbeat(name, (busy_seed + beat) % 100 / 100) for name in worker_names]}
        ).encode()
        writer.write(
            b"POST /api/v1/heartbeats/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (token.encode(), len(body)) + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise RuntimeError(head.decode())
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        answer = json.loads(await reader.readexactly(length))
        if answer["refused"]:
            raise RuntimeError(answer)
        await asyncio.sleep(max(0.0, 1 - (time.monotonic() - began)))


def heartbeat(worker: str, busy: float) -> dict[str, Any]:
    return {
        "worker": worker,
        "deployment": "chat",
        "service": "chat",
        "version": "m:v1",
        "engine": "echo",
        "device": "cpu",
        "machine": "box",
        "address": "127.0.0.1",
        "port": 20_000,
        "pid": 1,
        "state": "ready",
        "busy": busy,
        "in_flight": round(busy * 4),
        "slots": 4,
        "queue_depth": round(time.time() * 1000),
        "abilities": ["chat", "completions"],
        "counters": {},
        "started_at": 1.0,
        "at": time.time(),
    }


async def watch(port: int, token: str, seconds: float) -> list[Frame]:
    frames: list[Frame] = []
    headers = {"Authorization": f"Bearer {token}"}
    address = f"ws://127.0.0.1:{port}/ws/fleet/"
    async with websockets.connect(
        address, additional_headers=headers, compression=None, open_timeout=60, max_size=2**24
    ) as page:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                text = await asyncio.wait_for(page.recv(), left)
            except TimeoutError:
                break
            came = time.time()
            # Parsing each frame in each of many pages would measure this program, not the server.
            if '"delta"' in text[:20]:
                seq = int(text.split('"seq":', 1)[1].split(",", 1)[0])
                stamps = [int(stamp) for stamp in STAMP.findall(text[:4000])]
                frames.append((seq, came, came - max(stamps) / 1000 if stamps else float("nan")))
    return frames


async def watch_many(port: int, tokens: list[str], count: int, seconds: float) -> None:
    async def one(number: int) -> list[Frame]:
        await asyncio.sleep(number * RAMP_SECONDS)
        return await watch(
            port, tokens[1 + number % (len(tokens) - 1)], seconds + (count - number) * RAMP_SECONDS
        )

    found = await asyncio.gather(*(one(number) for number in range(count)))
    sys.stdout.write(json.dumps(found))


async def measure(
    port: int,
    tokens: Path,
    web: psutil.Process,
    *,
    workers: int,
    watchers: int,
    batched: bool,
    seconds: float,
) -> dict[str, str]:
    names = [f"chat-{number}" for number in range(workers)]
    size = PER_MACHINE if batched else 1
    groups = [names[start : start + size] for start in range(0, workers, size)]
    reporting = [
        asyncio.create_task(report(port, json.loads(tokens.read_text())[0], group, number))
        for number, group in enumerate(groups)
    ]
    counts = [
        min(WATCHERS_PER_PROCESS, watchers - start) for start in range(0, watchers, WATCHERS_PER_PROCESS)
    ]
    warm_up = 3 + max(counts, default=0) * RAMP_SECONDS
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "perf.live", "--watch", str(port), str(tokens), str(count)),
            str(seconds + warm_up),
            stdout=subprocess.PIPE,
            cwd=PROJECT,
            limit=2**28,
        )
        for count in counts
    ]
    await asyncio.sleep(warm_up)
    cpu, began = web.cpu_times(), time.time()
    await asyncio.sleep(seconds)
    after, ended = web.cpu_times(), time.time()
    pages: list[list[Frame]] = []
    for process in processes:
        output, _ = await process.communicate()
        pages += [[tuple(frame) for frame in page] for page in json.loads(output)]
    for task in reporting:
        if task.done():
            task.result()
        task.cancel()
    busy = (after.user + after.system - cpu.user - cpu.system) / (ended - began)
    first: dict[int, float] = {}
    within = [frame for page in pages for frame in page if began <= frame[1] <= ended]
    for seq, came, _ in within:
        first[seq] = min(first.get(seq, came), came)
    delays = [delay * 1000 for _, _, delay in within]
    spreads = [(came - first[seq]) * 1000 for seq, came, _ in within]
    return {
        "workers": str(workers),
        "POSTs/s": str(len(groups)),
        "pages": str(watchers),
        "frames/s a page": f"{len(within) / max(watchers, 1) / (ended - began):.2f}",
        "delay p50 / p99 ms": f"{percentile(delays, 0.5):.0f} / {percentile(delays, 0.99):.0f}",
        "spread p50 / p99 ms": f"{percentile(spreads, 0.5):.0f} / {percentile(spreads, 0.99):.0f}",
        "CPU %": f"{100 * busy:.0f}",
        "memory MB": f"{web.memory_info().rss / 1e6:.0f}",
    }


def show(rows: list[dict[str, str]]) -> None:
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    print("  ".join(name.rjust(width) for name, width in widths.items()))
    for row in rows:
        print("  ".join(row[name].rjust(width) for name, width in widths.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[100])
    parser.add_argument("--watchers", type=int, nargs="+", default=[0, 100, 500, 1000])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--watch", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.watch:
        port, tokens, count, seconds = arguments.watch
        asyncio.run(watch_many(int(port), json.loads(Path(tokens).read_text()), int(count), float(seconds)))
        return
    os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings.embedded"
    rows = []
    for workers in arguments.workers:
        with tempfile.TemporaryDirectory(prefix="slipway-perf-") as home:
            valkey = ValkeyServer()
            valkey.start()
            os.environ |= {"SLIPWAY_HOME": home, "SLIPWAY_REDIS_URL": valkey.url}
            code = f"import json; from perf.live import prepare; print(json.dumps(prepare({workers})))"
            tokens = Path(home) / "tokens"
            with tokens.open("w") as output:
                subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=True, stdout=output)
            with web_process() as (web, port):
                rows += [
                    asyncio.run(
                        measure(
                            port,
                            tokens,
                            web,
                            workers=workers,
                            watchers=watchers,
                            batched=batched,
                            seconds=arguments.seconds,
                        )
                    )
                    for watchers in arguments.watchers
                    for batched in (False, True)
                ]
            valkey.remove()
    show(rows)


if __name__ == "__main__":
    main()
