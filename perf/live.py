"""What live pages cost one web process: `python -m perf.live [--workers 100] [--watchers 100 500 1000]`.

A real web process (uvicorn) with a real Valkey and SQLite in a temporary home; machines that report once a
second, each with one of the workers or with 10 of them; pages on `/ws/fleet/`, in processes of their own.
Every figure is the web process's own CPU or a count, so that others on the machine do not change it: CPU per
worker reported (without pages), in microseconds and as a ratio to that of one `GET /healthz` in the same run;
CPU per frame that a page gets beyond that; and the frames that a page got of those that there were.
"""

import argparse
import asyncio
import json
import os
import secrets
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
Frame = tuple[int, float]
"""(seq, seconds since 1970 when it came)."""
PROBES = 500


def prepare(workers: int) -> list[str]:
    """Rows for the workers; returns tokens: one per machine, for either size of machine, then one for each of
    many people who look."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.utils import timezone

    from accounts.models import ApiToken, Team
    from accounts.services.people import create_user
    from accounts.services.tokens import create_token
    from accounts.states import Right, Role
    from clusters.models import AgentToken, Cluster, Deployment, Worker
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
    Worker.objects.bulk_create(
        Worker(
            deployment=row,
            name=f"chat-{number}",
            uid=f"chat-{number}",
            pid=1,
            state="ready",
            state_since=now,
        )
        for number in range(workers)
    )

    def token(name: str, right: Right) -> str:
        owner = create_user(actor=actor, username=name, team=team, role=Role.OPERATOR)
        return create_token(actor=actor, owner=owner, name="perf", scopes=[right]).text

    machines = []
    for number in range(workers + -(-workers // PER_MACHINE)):
        machines.append(token(f"m{number}", Right.FLEET_REPORT))
        AgentToken.objects.create(
            cluster=cluster, node_uid=f"box-{number}", token=ApiToken.objects.latest("pk")
        )
    return [*machines, *(token(f"p{n}", Right.READ) for n in range(PEOPLE))]


@contextmanager
def web_process() -> Iterator[tuple[psutil.Process, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)]
    command += ["--http", "controlplane.connections:BoundedProtocol"]
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


async def report(port: int, token: str, machine: int, worker_names: list[str]) -> None:
    """Once a second, on one connection, all of these workers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep((machine * 0.618) % 1)
    session, beat = secrets.token_hex(8), 0
    while True:
        beat += 1
        began = time.monotonic()
        busy = (machine + beat) % 100 / 100
        document = {
            "node": f"box-{machine}",
            "session": session,
            "sequence": beat,
            "workers": [heartbeat(name, busy) for name in worker_names],
            "devices": [],
        }
        answer = json.loads(await post(reader, writer, token, json.dumps(document).encode()))
        if answer["refused"]:
            raise RuntimeError(answer)
        await asyncio.sleep(max(0.0, 1 - (time.monotonic() - began)))


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, body: bytes) -> bytes:
    writer.write(
        b"POST /api/v1/node-reports/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (token.encode(), len(body)) + body
    )
    return await answered(reader)


async def answered(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise RuntimeError(head.decode())
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


async def cost_of_a_probe(port: int, web: psutil.Process) -> float:
    """CPU seconds of one `GET /healthz`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    before = used(web)
    for _ in range(PROBES):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await answered(reader)
    writer.close()
    return (used(web) - before) / PROBES


def used(web: psutil.Process) -> float:
    """CPU seconds."""
    times = web.cpu_times()
    return times.user + times.system


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
                frames.append((seq, came))
    return frames


async def watch_many(port: int, tokens: list[str], count: int, seconds: float) -> None:
    async def one(number: int) -> list[Frame]:
        await asyncio.sleep(number * RAMP_SECONDS)
        return await watch(port, tokens[number % len(tokens)], seconds + (count - number) * RAMP_SECONDS)

    found = await asyncio.gather(*(one(number) for number in range(count)))
    sys.stdout.write(json.dumps(found))


async def measure(
    port: int,
    tokens: Path,
    web: psutil.Process,
    *,
    workers: int,
    watchers: int,
    per_machine: int,
    seconds: float,
    alone: float,
    probe: float,
) -> tuple[dict[str, str], float]:
    """A row, and the CPU seconds per second. `alone`: what it was without pages, 0 when this is without;
    `probe`: the cost of a probe."""
    names = [f"chat-{number}" for number in range(workers)]
    groups = [names[start : start + per_machine] for start in range(0, workers, per_machine)]
    first = 0 if per_machine == 1 else workers
    texts = json.loads(tokens.read_text())
    reporting = [
        asyncio.create_task(report(port, texts[machine], machine, group))
        for machine, group in enumerate(groups, start=first)
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
    before, began = used(web), time.time()
    await asyncio.sleep(seconds)
    after, ended = used(web), time.time()
    pages: list[list[Frame]] = []
    for process in processes:
        output, _ = await process.communicate()
        pages += [[tuple(frame) for frame in page] for page in json.loads(output)]
    for task in reporting:
        if task.done():
            task.result()
        task.cancel()
    rate = (after - before) / (ended - began)
    frames = [frame for page in pages for frame in page if began <= frame[1] <= ended]
    sent = len({seq for seq, _ in frames}) * watchers
    per_frame = (rate - alone) * (ended - began) / len(frames) if frames else float("nan")
    row = {
        "workers": str(workers),
        "a machine": str(per_machine),
        "pages": str(watchers),
        "CPU us a worker": "" if watchers else f"{rate / workers * 1e6:.0f}",
        "of a probe": "" if watchers else f"{rate / workers / probe:.2f}",
        "CPU us a frame": f"{per_frame * 1e6:.0f}" if frames else "",
        "frames got": f"{100 * len(frames) / sent:.1f} %" if sent else "",
        "memory MB": f"{web.memory_info().rss / 1e6:.0f}",
    }
    return row, rate


async def measure_all(port: int, tokens: Path, web: psutil.Process, **given: Any) -> list[dict[str, str]]:
    rows, probe = [], await cost_of_a_probe(port, web)
    for per_machine in (1, PER_MACHINE):
        alone = 0.0
        for watchers in (0, *given["watchers"]):
            row, rate = await measure(
                port,
                tokens,
                web,
                workers=given["workers"],
                watchers=watchers,
                per_machine=per_machine,
                seconds=given["seconds"],
                alone=alone,
                probe=probe,
            )
            alone = alone or rate
            rows.append(row)
    return rows


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
        asyncio.run(
            watch_many(int(port), json.loads(Path(tokens).read_text())[-PEOPLE:], int(count), float(seconds))
        )
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
                measured = measure_all(
                    port,
                    tokens,
                    web,
                    workers=workers,
                    watchers=[count for count in arguments.watchers if count],
                    seconds=arguments.seconds,
                )
                rows += asyncio.run(measured)
            valkey.remove()
    show(rows)


if __name__ == "__main__":
    main()
