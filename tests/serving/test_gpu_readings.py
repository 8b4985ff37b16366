"""The agent of a machine reads the kernel's messages and keeps them until they are stored."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpu_health.signals.reading import GpuReading, ReadingClock, ReadingKind, ReadingSource
from serving.gpu_polling import DcgmProbe, GpuPolling, Probe
from serving.kernel_messages import KernelMessages
from serving.readings_sender import MOST_KEPT, ReadingsSender, readings_url
from tests.patience import cancelled, eventually

RECORD = (
    b"4,%d,206764307,-;NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\n SUBSYSTEM=pci\n"
)


def seen(number: int) -> GpuReading:
    return GpuReading(source=ReadingSource.KERNEL_LOG, fault="xid.79", origin=f"boot/{number}")


async def until(is_so: Callable[[], bool]) -> None:
    await asyncio.to_thread(eventually, is_so)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("slp_x")
    return path


@asynccontextmanager
async def control_plane(
    answer: Callable[[dict[str, list[dict[str, str]]]], tuple[int, object]],
) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"
        )
        assert head.startswith(b"POST /api/v1/gpu-health/readings/ ")
        status, document = answer(json.loads(await reader.readexactly(length)))
        body = json.dumps(document).encode()
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/v1/node-reports/"


async def test_records_of_the_kernel_become_readings_that_count_once(tmp_path: Path) -> None:
    pipe = tmp_path / "kmsg"
    os.mkfifo(pipe)
    found: list[GpuReading] = []
    task = asyncio.create_task(KernelMessages(found.extend, kmsg=pipe).run())
    # Opened when it is read: until then this would wait, and with it whoever is to read.
    writer = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)
    for number in (7, 8):
        os.write(writer, RECORD % number)
        # A pipe would give both at once, where the kernel gives one a read.
        await until(lambda number=number: len(found) == number - 6)
    await cancelled(task)
    os.close(writer)

    assert [one.fault for one in found] == ["xid.79", "xid.79"]
    assert [one.origin.rpartition("/")[2] for one in found] == ["7", "8"]


async def test_reading_ends_at_whatever_moment_it_is_cancelled(tmp_path: Path) -> None:
    pipe = tmp_path / "kmsg"
    os.mkfifo(pipe)
    for ticks in range(6):
        messages = KernelMessages(lambda _: None, kmsg=pipe)
        task = asyncio.create_task(messages.run())
        await asyncio.sleep(0.01)
        messages._more.set()
        for _ in range(ticks):
            await asyncio.sleep(0)
        await cancelled(task)


async def test_messages_that_may_not_be_read_are_told_where_there_are_gpus(tmp_path: Path) -> None:
    found: list[GpuReading] = []
    driver = tmp_path / "version"

    await KernelMessages(found.extend, kmsg=tmp_path / "none", driver=driver).run()
    assert found == []
    driver.write_text("NVRM version")
    await KernelMessages(found.extend, kmsg=tmp_path / "none", driver=driver).run()

    assert [(one.fault, one.kind) for one in found] == [("detector.kernel_log", ReadingKind.DETECTOR)]


async def test_what_was_not_stored_is_sent_after_a_restart(tmp_path: Path, token: Path) -> None:
    spool = tmp_path / "readings.jsonl"
    before = ReadingsSender("http://127.0.0.1:9/api/v1/node-reports/", token_file=token, spool=spool)
    before.take([seen(1), seen(2), seen(1)])
    assert not await before.send()
    with spool.open("a") as file:
        file.write('{"half": ')

    got: list[str] = []

    def store(sent: dict[str, list[dict[str, str]]]) -> tuple[int, object]:
        got.extend(one["origin"] for one in sent["readings"])
        return 200, {"stored": 2, "known": 0, "refused": []}

    async with control_plane(store) as url:
        after = ReadingsSender(url, token_file=token, spool=spool)
        assert after.unsent == 2
        assert await after.send()

    assert got == ["boot/1", "boot/2"]
    assert ReadingsSender(url, token_file=token, spool=spool).unsent == 0


@pytest.mark.parametrize(("status", "document"), [(409, {}), (200, {"ok": True}), (503, None)])
async def test_only_an_answer_that_says_so_means_stored(
    tmp_path: Path, token: Path, status: int, document: object
) -> None:
    async with control_plane(lambda _sent: (status, document)) as url:
        sender = ReadingsSender(url, token_file=token, spool=tmp_path / "spool")
        sender.take([seen(1)])

        assert not await sender.send()
        assert sender.unsent == 1


def test_what_is_kept_is_bounded_and_the_oldest_goes_first(token: Path) -> None:
    sender = ReadingsSender("http://127.0.0.1:9/", token_file=token)
    sender.take([seen(number) for number in range(MOST_KEPT + 5)])

    assert (sender.unsent, sender.lost) == (MOST_KEPT, 5)


def test_what_is_said_again_and_again_pushes_out_nothing_else(token: Path) -> None:
    sender = ReadingsSender("http://127.0.0.1:9/", token_file=token)
    rare = replace(seen(0), fault="xid.48")
    sender.take([rare, *(seen(number) for number in range(1, MOST_KEPT + 5))])

    assert (sender.unsent, sender.lost) == (MOST_KEPT, 5)
    assert rare.origin in sender._unsent


async def test_a_reading_of_a_former_start_keeps_its_boot(tmp_path: Path, token: Path) -> None:
    spool = tmp_path / "spool"
    before = ReadingsSender("http://127.0.0.1:9/", token_file=token, spool=spool)
    before._boot = "former"
    before.take([seen(1)])
    sent: dict[str, Any] = {}

    def store(document: dict[str, Any]) -> tuple[int, object]:
        sent.update(document)
        return 200, {"stored": 2, "known": 0, "refused": []}

    async with control_plane(store) as url:
        after = ReadingsSender(url, token_file=token, spool=spool)
        after._boot = "present"
        after.take([seen(2)])
        assert await after.send()

    assert sent["boot"] == "present"
    assert [one["boot"] for one in sent["readings"]] == ["former", "present"]


def test_readings_go_below_the_address_of_reports() -> None:
    assert (
        readings_url("https://c.example/api/v1/node-reports/")
        == "https://c.example/api/v1/gpu-health/readings/"
    )


async def test_a_source_that_hangs_or_breaks_holds_back_no_other() -> None:
    found: list[GpuReading] = []
    release = threading.Event()

    def hangs(_at: float) -> list[GpuReading]:
        release.wait(10)
        return []

    def breaks(_at: float) -> list[GpuReading]:
        raise RuntimeError("no such device")

    probes = (
        Probe(ReadingSource.NVML, hangs),
        Probe(ReadingSource.DCGM, breaks),
        Probe(ReadingSource.INFINIBAND, lambda _at: [seen(1)]),
    )
    task = asyncio.create_task(GpuPolling(found.extend, *probes).run())
    await until(lambda: bool(found))
    release.set()
    await cancelled(task)

    assert found == [seen(1)]


async def test_a_probe_that_misses_three_polls_is_told_as_a_hang_and_as_over_once_it_answers() -> None:
    found: list[GpuReading] = []
    release = threading.Event()
    looks = 0

    def hangs(_at: float) -> list[GpuReading]:
        nonlocal looks
        looks += 1
        release.wait(30)
        return []

    polling = GpuPolling(found.extend, Probe(ReadingSource.NVML, hangs), every_seconds=0.05)
    task = asyncio.create_task(polling.run())
    await until(lambda: bool(found))
    assert [(one.fault, one.kind, one.source) for one in found] == [
        ("probe.hang", ReadingKind.FAULT, ReadingSource.NVML)
    ]
    assert looks == 1, "there is never a second of the same probe"
    release.set()
    await until(lambda: len(found) > 1)
    await cancelled(task)

    assert [one.kind for one in found] == [ReadingKind.FAULT, ReadingKind.CLEARED]


def exporter(metrics: str) -> HTTPServer:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(metrics.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def test_dcgm_exporter_is_asked_and_its_absence_is_the_detectors_fault() -> None:
    server = exporter('DCGM_FI_DEV_ROW_REMAP_PENDING{gpu="0",UUID="GPU-1",pci_bus_id="00000000:9B:00.0"} 1\n')
    probe = DcgmProbe(f"http://127.0.0.1:{server.server_port}/metrics", session="s")

    pending, *state = probe.read(1.0)
    server.shutdown()
    server.server_close()
    (gone,) = probe.read(2.0)

    assert (pending.fault, pending.gpu_bus_id) == ("row_remap.pending", "0000:9b:00")
    assert {one.fault for one in state} == {"source.state"}
    assert (gone.fault, gone.kind) == ("detector.dcgm", ReadingKind.DETECTOR)


class Clocks:
    """A machine's clocks: its wall clock, and the ticks since its start, which nobody sets."""

    def __init__(self) -> None:
        self.wall, self.since_start = 1_000.0, 50.0

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.since_start += seconds


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_clock_that_is_set_meanwhile_makes_no_reading_older(
    tmp_path: Path, token: Path, restarts: bool
) -> None:
    sent: list[dict[str, Any]] = []

    def store(document: dict[str, Any]) -> tuple[int, object]:
        sent.append(document)
        return 200, {"stored": 1, "known": 0, "refused": []}

    clocks = Clocks()

    def sender(url: str) -> ReadingsSender:
        return ReadingsSender(
            url,
            token_file=token,
            spool=tmp_path / "spool",
            clock=lambda: clocks.wall,
            ticks=lambda: clocks.since_start,
        )

    async with control_plane(store) as url:
        first = sender(url)
        reading = GpuReading(
            source=ReadingSource.KERNEL_LOG,
            fault="xid.79",
            at=clocks.wall,
            clock=ReadingClock.EPOCH,
            origin="boot/1",
        )
        first.take([reading])
        clocks.pass_(30)
        clocks.wall += 56 * 365 * 86_400  # the time daemon has found its servers
        await (sender(url) if restarts else first).send()
    (document,) = sent
    assert document["sent_at"] - document["readings"][0]["at"] == pytest.approx(30)
    assert "seen" not in document["readings"][0]
