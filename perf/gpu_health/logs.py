"""Kernel logs read and judged, beside `grep -c Xid`."""

import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpu_health.judge import judge
from gpu_health.policy.presets import DEFAULT, preset
from gpu_health.signals.kernel_log import KernelLogParser, parse
from perf.required import RequiredFigure

AT_LEAST = 0.1
MEMORY_APART_KB = 8_192
NOISE = (
    "IPv6: ADDRCONF(NETDEV_CHANGE): cali{:x}: link becomes ready",
    "perf: interrupt took too long ({} > 3926), lowering kernel.perf_event_max_sample_rate to 27750",
    'audit: type=1400 audit(1740327858.250:{}): apparmor="DENIED" operation="open" profile="runc"',
    "eth0: renamed from veth{:x}",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,task=python,pid={},uid=0",
)
OTHERS = (
    "NVRM: GPU4 RPC history (CPU -> GSP):",
    "NVRM:      -1    103  GSP_RM_ALLOC          0x0000000000002080 0x0000000000000004 0x00062ed1a6b51c6f",
    "nvidia-nvswitch3: open (major=510)",
)
FAULTS = (
    "NVRM: Xid (PCI:0000:{:02x}:00): 31, pid={}, name=python3, MMU Fault: ENGINE GRAPHICS GPC1 faulted",
    "NVRM: Xid (PCI:0000:{:02x}:00): 119, pid={}, name=nvidia-smi, Timeout after 6s of waiting for RPC",
    "NVRM: Xid (PCI:0000:{:02x}:00): 13, pid={}, name=python3, SM Warp Exception on (GPC 7, TPC 2, SM 1)",
)


def lines(seed: int, *, dense: bool) -> Iterator[str]:
    rng = random.Random(seed)
    at = 0.0
    while True:
        at += rng.random()
        turn = 0 if dense else rng.randrange(8_000)
        if turn == 0:
            message = rng.choice(FAULTS).format(rng.randrange(8), rng.randrange(99_999))
        elif turn < 4:
            message = rng.choice(OTHERS)
        else:
            message = rng.choice(NOISE).format(rng.randrange(2**24))
        yield f"[{at:12.6f}] {message}\n"


def write(path: Path, size: int, *, dense: bool = False) -> int:
    """Lines written: one block of the log, again and again until it is as large."""
    source = lines(7, dense=dense)
    block = "".join(next(source) for _ in range(100_000 if size > 20_000_000 else 20_000)).encode()
    count = 0
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(block)
            count += block.count(b"\n")
    return count


def own_cpu(command: list[str]) -> tuple[float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime), done.stdout


def read_alone(path: Path) -> None:
    """Read in a process of its own: CPU from the first byte on, and the most memory that it held."""
    began = resource.getrusage(resource.RUSAGE_SELF)
    with path.open("rb") as stream:
        verdicts = judge(parse(stream, KernelLogParser()), preset(DEFAULT))
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = (used.ru_utime + used.ru_stime) - (began.ru_utime + began.ru_stime)
    print(json.dumps({"cpu": cpu, "kb": used.ru_maxrss, "seen": sum(one.count for one in verdicts)}))


def measured(path: Path) -> dict[str, float]:
    _, said = own_cpu([sys.executable, "-m", "perf.gpu_health", "--read", str(path)])
    return dict(json.loads(said))


def rows(*, megabytes: int, rounds: int) -> list[RequiredFigure]:
    with tempfile.TemporaryDirectory() as folder:
        whole, small, faults = (Path(folder) / name for name in ("whole.log", "small.log", "faults.log"))
        count = write(whole, megabytes * 1_000_000)
        write(small, megabytes * 10_000)
        dense_count = write(faults, 20_000_000, dense=True)
        grep, ours = [], []
        for _ in range(rounds):
            cpu, said = own_cpu(["grep", "-c", "Xid", str(whole)])
            grep.append(cpu)
            ours.append(measured(whole))
        if int(said) != ours[0]["seen"]:
            raise SystemExit(f"grep counts {said.strip()} lines with Xid, the parser {ours[0]['seen']}.")
        theirs, best = count / min(grep), count / min(one["cpu"] for one in ours)
        apart = max(one["kb"] for one in ours) - measured(small)["kb"]
        dense_grep, _ = own_cpu(["grep", "-c", "Xid", str(faults)])
        dense = measured(faults)
        return [
            RequiredFigure(
                "lines of the log", f"{count:,} in {megabytes:,} MB, {said.strip()} of them faults"
            ),
            RequiredFigure("grep -c Xid, lines per CPU second", f"{theirs:,.0f}"),
            RequiredFigure("read and judged, lines per CPU second", f"{best:,.0f}"),
            RequiredFigure(
                "share of grep",
                f"{best / theirs:.3g}",
                f"at least {AT_LEAST:g}",
                best / theirs >= AT_LEAST,
            ),
            RequiredFigure("memory held at most", f"{max(one['kb'] for one in ours) / 1024:.0f} MiB"),
            RequiredFigure(
                "memory for the whole log over that for a hundredth",
                f"{apart:,.0f} kB",
                f"at most {MEMORY_APART_KB:,} kB",
                apart <= MEMORY_APART_KB,
            ),
            RequiredFigure("nothing but faults, lines per CPU second", f"{dense_count / dense['cpu']:,.0f}"),
            RequiredFigure("  share of grep", f"{dense_grep / dense['cpu']:.3g}"),
        ]
