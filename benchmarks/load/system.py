"""System figures of a run each second: of this machine, of others by exporters, of the servers' own metrics.

A process of its own, `python -m benchmarks.load.system`, so that no reading delays a request. It ends with
its standard input. A source that does not answer leaves a gap; nothing is filled in.
"""

import csv
import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from serving.leash import end_with_parent
from serving.scraping.exposition import MetricSamples

if TYPE_CHECKING:
    # Beside the control plane alone: a generator in a cluster has a worker's packages, and its servers are on
    # other machines.
    import psutil

EVERY_SECONDS = 1.0
WITHIN_SECONDS = 0.8
SYSTEM_FILE = "system.jsonl"
MIB = 2**20
Values = dict[str, float]
"""By `name` or `name of`: `cpu`, `gpu_use node-1 0`."""

GAUGES: Mapping[str, Sequence[str]] = {
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs", "slipway_worker_in_flight"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "slipway_worker_queue_depth"),
    "kv_cache": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
}
"""Of a server's own metrics; the first name that is there."""
DCGM: Mapping[str, tuple[str, float]] = {
    "gpu_use": ("DCGM_FI_DEV_GPU_UTIL", 0.01),
    "gpu_memory": ("DCGM_FI_DEV_FB_USED", MIB),
    "gpu_power": ("DCGM_FI_DEV_POWER_USAGE", 1),
    "gpu_clock": ("DCGM_FI_DEV_SM_CLOCK", 1),
    "gpu_temperature": ("DCGM_FI_DEV_GPU_TEMP", 1),
}
"""Of dcgm-exporter, by the factor that makes it ours: a share, bytes, W, MHz, degrees Celsius."""
_NO_PROCESSES: "list[psutil.Process]" = []
NVIDIA_SMI = "index,utilization.gpu,memory.used,power.draw,clocks.sm,temperature.gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSources:
    servers: Sequence[str] = ()
    """Addresses of what is loaded; those on this machine are also looked at as processes."""
    exporters: Mapping[str, str] = field(default_factory=dict)
    """Machine's name by the address of an exporter's metrics: of node_exporter or dcgm-exporter."""
    is_local: bool = False
    """Whether the servers are on this machine."""


@contextmanager
def sampling(sources: SystemSources, directory: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Sample while the block lasts; the function returns what was sampled until now."""
    file = directory / SYSTEM_FILE
    order = {
        "servers": list(sources.servers),
        "exporters": dict(sources.exporters),
        "is_local": sources.is_local,
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load.system", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=end_with_parent,
    )
    try:
        if child.stdin is not None:
            with suppress(BrokenPipeError):
                child.stdin.write(json.dumps(order) + "\n")
                child.stdin.flush()
        yield lambda: read_samples(file)
    finally:
        with suppress(BrokenPipeError):
            child.communicate(timeout=None)
        file.unlink(missing_ok=True)


def read_samples(file: Path) -> list[dict[str, Any]]:
    """Return `{at, values}` of each second; a last line that is not whole is left out."""
    found = []
    with suppress(FileNotFoundError):
        for line in file.read_text().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
    return found


class SystemReader:
    def __init__(self, sources: SystemSources) -> None:
        self._sources = sources
        self._pool = ThreadPoolExecutor(max_workers=16)
        self._before: dict[str, tuple[float, float]] = {}
        """Counters at the last look, with its time, by what is counted."""
        self._processes = list(_NO_PROCESSES)
        self._looks = 0
        self._gpus: Values = {}
        if sources.is_local:
            import psutil

            psutil.cpu_percent()
            threading.Thread(target=self._follow_gpus, daemon=True).start()

    def read(self) -> Values:
        sources = self._sources
        asked = [self._pool.submit(self._server, one, url) for one, url in enumerate(sources.servers)]
        asked += [self._pool.submit(self._exporter, name, url) for url, name in sources.exporters.items()]
        found = self._local() if sources.is_local else {}
        for one in asked:
            found |= one.result()
        return found

    def _server(self, number: int, address: str) -> Values:
        samples = _scraped(f"{address.rstrip('/')}/metrics")
        name = f" {number + 1}" if len(self._sources.servers) > 1 else ""
        found = {}
        for ours, theirs in GAUGES.items():
            if known := next((one for one in theirs if one in samples), None):
                found[f"{ours}{name}"] = samples.total(known)
        return found

    def _exporter(self, machine: str, url: str) -> Values:
        samples = _scraped(url)
        found: Values = {}
        for ours, (theirs, factor) in DCGM.items():
            for one in samples.of(theirs):
                found[f"{ours} {machine} {one.labels.get('gpu', '')}".strip()] = one.value * factor
        if total := samples.total("node_memory_MemTotal_bytes"):
            found[f"memory {machine}"] = total - samples.total("node_memory_MemAvailable_bytes")
        if "node_cpu_seconds_total" in samples:
            idle = samples.total("node_cpu_seconds_total", mode="idle")
            cores = len({one.labels.get("cpu") for one in samples.of("node_cpu_seconds_total")})
            if (rate := self._rate(f"idle {machine}", idle)) is not None:
                found[f"cpu {machine}"] = min(1.0, max(0.0, 1 - rate / cores))
        return found

    def _rate(self, what: str, value: float) -> float | None:
        now = time.monotonic()
        before = self._before.get(what)
        self._before[what] = now, value
        return None if before is None or value < before[1] else (value - before[1]) / (now - before[0])

    def _local(self) -> Values:
        import psutil

        found = {"cpu": psutil.cpu_percent() / 100, "memory": float(psutil.virtual_memory().used)}
        if self._looks % 10 == 0:
            self._processes = _families(self._sources.servers)
        self._looks += 1
        used = resident = 0.0
        for one in self._processes:
            with suppress(psutil.Error):
                times = one.cpu_times()
                resident += one.memory_info().rss
                used += self._rate(f"process {one.pid}", times.user + times.system) or 0.0
        if self._processes and self._looks > 1:
            found |= {"worker_cpu": used, "worker_memory": resident}
        gpus, self._gpus = self._gpus, {}
        return found | gpus

    def _follow_gpus(self) -> None:
        """Keep what the driver's tool says each second, where there is one."""
        if (tool := shutil.which("nvidia-smi")) is None:
            return
        command = [tool, f"--query-gpu={NVIDIA_SMI}", "--format=csv,noheader,nounits", "--loop-ms=1000"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=end_with_parent
        ) as child:
            for row in csv.reader(child.stdout or (), skipinitialspace=True):
                values = zip(DCGM.items(), row[1:], strict=False)
                for (name, (_theirs, factor)), value in values:
                    with suppress(ValueError):
                        self._gpus[f"{name} {row[0]}"] = float(value) * factor


def _scraped(url: str) -> MetricSamples:
    try:
        with urllib.request.urlopen(url, timeout=WITHIN_SECONDS) as answer:  # noqa: S310  (http alone)
            return MetricSamples(answer.read().decode("utf-8", "replace"))
    except (OSError, ValueError):
        return MetricSamples("")


def _families(servers: Sequence[str]) -> "list[psutil.Process]":
    """Return the processes that listen at these addresses, and all below them."""
    import psutil

    ports = {urlsplit(one).port for one in servers}
    found: dict[int, psutil.Process] = {}
    with suppress(psutil.Error):
        for socket in psutil.net_connections("tcp"):
            is_theirs = socket.status == psutil.CONN_LISTEN and socket.laddr and socket.laddr[1] in ports
            if is_theirs and socket.pid:
                with suppress(psutil.Error):
                    one = psutil.Process(socket.pid)
                    found |= {each.pid: each for each in (one, *one.children(recursive=True))}
    return list(found.values())


def main() -> None:
    order = json.loads(sys.stdin.readline())
    reader = SystemReader(SystemSources(**order))
    ended = threading.Event()

    def follow_input() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=follow_input, daemon=True).start()
    due = time.monotonic()
    with Path(sys.argv[1]).open("w", buffering=1) as file:
        while not ended.wait(max(0.0, due - time.monotonic())):
            values = reader.read()
            file.write(json.dumps({"at": round(time.time(), 3), "values": values}) + "\n")
            # A late look is not made up for: its second stays a gap.
            due = max(due + EVERY_SECONDS, time.monotonic())


if __name__ == "__main__":
    main()
