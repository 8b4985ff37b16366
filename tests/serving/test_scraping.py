"""Servers that send no heartbeat are read by their metrics, and look like workers of ours.

The texts in `metrics/` are as the servers' documentation and sources show their output (see
`serving.engines.specs`); vLLM 0.32 and llama.cpp wrote their own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from serving.engines.registry import ENGINES
from serving.protocol import Counters, Heartbeat
from serving.relay_protocol import ScrapeTarget
from serving.scraping.exposition import Histogram, MetricSamples
from serving.scraping.reading import read
from serving.scraping.scraper import CannotRead, Scraper

TEXTS = Path(__file__).parent / "metrics"


def text(engine: str) -> str:
    return (TEXTS / f"{engine}.txt").read_text()


def target(engine: str, **fields: object) -> ScrapeTarget:
    given = {
        "worker": "chat-1-0",
        "deployment": "chat-1",
        "service": "chat",
        "version": "chat:v1",
        "engine": engine,
        "machine": "box",
        "address": "127.0.0.1",
        "port": 8000,
        "slots": 16,
    }
    return ScrapeTarget.from_dict({"path": "/metrics", **given, **fields})


def first(engine: str) -> Heartbeat:
    return Scraper().note(target(engine), text(engine), now=1_000.0)


@pytest.mark.parametrize(
    ("engine", "in_flight", "queued", "counters"),
    [
        ("vllm", 3, 2, Counters(requests=167, errors=2, prompt_tokens=27_453, completion_tokens=89_950)),
        ("llama.cpp", 0, 0, Counters(prompt_tokens=25, completion_tokens=12)),
        (
            "tensorrt-llm",
            3,
            1,
            Counters(requests=157, errors=2, prompt_tokens=4_200, completion_tokens=12_345),
        ),
        (
            "sglang",
            162,
            2_826,
            Counters(requests=11_228, prompt_tokens=8_128_902, completion_tokens=7_557_572),
        ),
        (
            "tgi",
            7,
            4,
            Counters(requests=42, errors=1, refused=1, prompt_tokens=4_120, completion_tokens=2_870),
        ),
        ("triton", 0, 6, Counters(requests=395_937, errors=2, refused=5)),
        ("openai", 0, 0, Counters(requests=92, errors=2, prompt_tokens=8_120, completion_tokens=19_440)),
    ],
)
def test_each_server_says_its_load_and_its_totals(engine, in_flight, queued, counters) -> None:
    found = first(engine)
    assert (found.in_flight, found.queue_depth, found.counters) == (in_flight, queued, counters)
    assert (found.worker, found.engine, found.state) == ("chat-1-0", engine, "ready")
    assert Heartbeat.from_dict(found.to_dict()) == found
    assert (found.ttft, found.tpot) == (None, None)  # nothing of the last minute is known yet


@pytest.mark.parametrize(
    ("file", "engine", "kv_used"),
    [("vllm-0.32", "vllm", 0.0), ("sglang", "sglang", 0.28), ("tensorrt-llm", "tensorrt-llm", 0.42)],
)
def test_the_share_of_the_cache_has_one_name(file, engine, kv_used) -> None:
    names = ENGINES[engine].metrics
    assert names is not None
    found = read(MetricSamples(text(file)), names)
    assert found is not None
    assert found.kv_used == kv_used


def test_metrics_that_vllm_wrote_itself_are_read() -> None:
    found = Scraper().note(target("vllm"), text("vllm-0.32"), now=1_000.0)
    assert found.counters == Counters(requests=3, prompt_tokens=21, completion_tokens=16)


def test_a_server_that_says_when_it_began_is_believed() -> None:
    assert first("vllm").started_at == 1763800000.12
    assert first("tgi").started_at == 1_000.0


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tgi", "triton"])
def test_metrics_of_another_server_are_refused(engine) -> None:
    other = "tgi" if engine == "triton" else "triton"
    with pytest.raises(CannotRead, match=f"not those of {engine}"):
        Scraper().note(target(engine), text(other), now=0.0)


NAMES = {
    "running": "engine_active",
    "waiting": "engine_queue",
    "requests": "http_requests_total",
    "errors": 'http_requests_total{code="500"}',
    "ttft": "engine_first_token_seconds",
}
OWN = """engine_active 3
engine_queue 1
http_requests_total{code="200",path="/v1/chat"} 40
http_requests_total{code="500",path="/v1/chat"} 2
"""


def test_a_server_that_nobody_knows_is_read_by_the_names_that_its_service_gives() -> None:
    wanted = target("openai", names=NAMES)
    found = Scraper().note(wanted, OWN, now=0.0)
    assert (found.in_flight, found.queue_depth) == (3, 1)
    assert found.counters == Counters(requests=42, errors=2)
    assert ScrapeTarget.from_dict(asdict(wanted)) == wanted


def test_without_the_gauge_that_is_always_there_it_is_not_that_server() -> None:
    for words in ("engine_queue 1\n", "<html></html>", ""):
        with pytest.raises(CannotRead, match="not those of openai"):
            Scraper().note(target("openai", names=NAMES), words, now=0.0)
    # Histograms are there from the first request on: before it the server is idle.
    fresh = Scraper().note(target("openai"), "process_start_time_seconds 1\n", now=0.0)
    assert (fresh.busy, fresh.counters) == (0.0, Counters())


def test_busy_is_the_mean_share_of_the_slots_over_ten_seconds() -> None:
    scraper, busy = Scraper(), text("tgi")
    idle = busy.replace("tgi_batch_current_size 7", "tgi_batch_current_size 0")
    wanted = target("tgi", slots=7)
    for second in range(11):
        found = scraper.note(wanted, busy, now=float(second))
    assert found.busy == 1.0
    for second in range(11, 16):
        found = scraper.note(wanted, idle, now=float(second))
    assert found.busy == pytest.approx(0.6)


def test_where_requests_at_work_are_not_told_busy_follows_from_the_time_computed() -> None:
    scraper, wanted = Scraper(), target("triton", slots=4)
    scraper.note(wanted, text("triton"), now=0.0)
    later = text("triton").replace("1940000000", "1950000000")
    found = scraper.note(wanted, later, now=5.0)  # 10 s of work in 5 s
    assert (found.busy, found.in_flight) == (0.5, 2)


def test_latencies_are_those_of_the_last_minute() -> None:
    scraper, wanted = Scraper(), target("vllm")
    before = text("vllm")
    scraper.note(wanted, before, now=0.0)
    after = before
    for was, now in (('le="0.25"', "264.0"), ('le="+Inf"', "264.0")):
        lines = [
            f"{line.rpartition(' ')[0]} {now}" if was in line and "time_to_first" in line else line
            for line in after.splitlines()
        ]
        after = "\n".join(lines)
    found = scraper.note(wanted, after, now=30.0)
    assert found.ttft is not None
    assert found.ttft.count == 100
    assert (found.ttft.p50_ms, found.ttft.p95_ms) == (pytest.approx(175.0), pytest.approx(242.5))
    assert scraper.note(wanted, after, now=100.0).ttft is None


def test_a_server_that_began_anew_is_another_process_and_no_rate_goes_backwards() -> None:
    scraper, wanted = Scraper(), target("tgi")
    before = scraper.note(wanted, text("tgi"), now=0.0)
    fresh = "tgi_queue_size 0\ntgi_batch_current_size 1\n"
    after = scraper.note(wanted, fresh, now=5.0)
    assert after.pid != before.pid
    assert (after.started_at, after.counters, after.tpot) == (5.0, Counters(), None)


def test_a_quantile_lies_within_its_bucket_and_never_beyond_the_last_bound() -> None:
    found = Histogram({0.1: 10, 0.2: 20, float("inf"): 40})
    assert found.quantile(0.25) == pytest.approx(0.1)
    assert found.quantile(0.375) == pytest.approx(0.15)
    assert found.quantile(0.95) == 0.2
    assert Histogram().quantile(0.5) == 0.0


def test_lines_that_cannot_be_read_hide_none_of_the_others() -> None:
    samples = MetricSamples('# a\nx{a="1",b="q\\"uote"} 2 1700000000\nx{a="2"} NaN\n???\nx oops\nxy 9\n')
    assert samples.total("x") == 2.0
    assert samples.total("x", a="1", b='q\\"uote') == 2.0
    assert "y" not in samples


@asynccontextmanager
async def serving(content: str, status: str = "200 OK") -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + content.encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_those_that_do_not_answer_are_silent_and_hold_up_nobody() -> None:
    async with serving(text("vllm")) as port, serving("", "404 Not Found") as closed:
        wanted = [
            target("vllm", port=port),
            target("vllm", worker="chat-1-1", port=closed),
            target("vllm", worker="chat-1-2", port=1),
        ]
        found = await Scraper().read(wanted)
    assert [one.worker for one in found] == ["chat-1-0"]
