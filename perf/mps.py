"""Two processes share a GPU by MPS: what each gets, what memory limits refuse, whom `terminate_client` ends.

    python -m perf.mps          # where a GPU and nvidia-cuda-mps-control are
    python -m perf.mps --cpu    # the same steps on the CPU, to try the script: shares mean nothing there

The daemon has a directory of its own and ends with the script; no mode of the GPU is changed.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from clusters.backends.embedded.mps import MpsClient, MpsControl, MpsFailed

MULTIPLY = """
import sys, time, torch
device, seconds, size = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
a = torch.randn(size, size, device=device, dtype=torch.bfloat16 if device == "cuda" else torch.float32)
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
for _ in range(3): a @ a
wait()
print("ready", flush=True)
sys.stdin.readline()
begun, done = time.monotonic(), 0
while time.monotonic() - begun < seconds:
    for _ in range(10): a @ a
    wait()
    done += 10
print(done / (time.monotonic() - begun), flush=True)
"""
ALLOCATE = """
import sys, torch
gib = int(sys.argv[2])
torch.empty(gib * 2**30, dtype=torch.uint8, device=sys.argv[1]).fill_(1)
print("allocated", flush=True)
"""
SECONDS, SIZE = 5.0, 4096


class Loops:
    """Processes that multiply matrices: begun one after the other, let go together."""

    def __init__(self, device: str, size: int, base: Mapping[str, str]) -> None:
        self._device, self._size, self._base = device, size, base
        self.running: list[subprocess.Popen[str]] = []

    def begin(self, seconds: float, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", MULTIPLY, self._device, str(seconds), str(self._size)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | dict(self._base) | variables,
        )
        self.running.append(process)
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise MpsFailed(f"A loop did not begin: {process.communicate()[1][-600:]}")
        return process

    def rates(self, *processes: subprocess.Popen[str]) -> list[float]:
        for one in processes:
            self.go(one)
        return [float(one.communicate(timeout=60)[0]) for one in processes]

    @staticmethod
    def go(process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    def close(self) -> None:
        for one in self.running:
            if one.poll() is None:
                one.kill()
                one.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.mps", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--cpu", action="store_true", help="try the script without a GPU")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    is_cpu = chosen.cpu
    device, size = ("cpu", 256) if is_cpu else ("cuda", SIZE)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print("control program:", MpsControl.program())
    with tempfile.TemporaryDirectory(prefix="mps-") as directory:
        control = MpsControl(Path(directory))
        try:
            begun = time.monotonic()
            control.start()
            print(f"daemon: started in {time.monotonic() - begun:.2f} s")
            for name in chosen.parts:
                try:
                    PARTS[name](control, device, size)
                except (MpsFailed, subprocess.SubprocessError) as error:
                    print(f"{name}: {error}")
        except MpsFailed as error:
            print(error)
            return 1
        finally:
            if control.program():
                control.end()
                print(f"ended; runs: {control.is_running()}")
    return 0


def _shares(control: MpsControl, device: str, size: int) -> None:
    seconds = SECONDS if device == "cuda" else 0.5
    alone = Loops(device, size, {})
    loops = Loops(device, size, control.environment)
    try:
        print(f"alone, without MPS: {alone.rates(alone.begin(seconds))[0]:,.0f} products/s")
        whole = loops.rates(loops.begin(seconds))[0]
        print(f"alone, by MPS, 100 %: {whole:,.0f} products/s")
        for share in (25, 75):
            one = loops.rates(loops.begin(seconds, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(share)))[0]
            print(f"alone, by MPS, {share} %: {one:,.0f} products/s = {one / whole:.2f} of 100 %")
        both = loops.rates(
            *(loops.begin(seconds, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=share) for share in ("25", "75"))
        )
        for share, one in zip((25, 75), both, strict=True):
            print(f"together, {share} %: {one:,.0f} products/s = {one / whole:.2f} of 100 %")
        print(f"together: {sum(both) / whole:.2f} of 100 %")
        both = loops.rates(loops.begin(seconds), loops.begin(seconds))
        print(f"together, no shares: {both[0] / whole:.2f} and {both[1] / whole:.2f} of 100 %")
    finally:
        alone.close()
        loops.close()


def _memory(control: MpsControl, device: str, _size: int) -> None:
    for gib in (1, 6):
        limit = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=4G"}
        ran = subprocess.run(
            [sys.executable, "-c", ALLOCATE, device, str(gib if device == "cuda" else 1)],
            capture_output=True,
            text=True,
            timeout=60,
            env=os.environ | control.environment | limit,
        )
        said = (ran.stdout if ran.returncode == 0 else ran.stderr).strip().splitlines()[-1:]
        print(f"limit 4 GiB, asks for {gib} GiB: exit {ran.returncode}: {''.join(said)[:500]}")


def _termination(control: MpsControl, device: str, size: int) -> None:
    """Measure how a client goes on when the other one ends: while it works, while it waits, or by a kill."""
    for way in ("terminated at work", "terminated idle", "killed at work"):
        loops = Loops(device, size, control.environment)
        try:
            first, second = loops.begin(60), loops.begin(4)
            loops.go(second)
            if way != "terminated idle":
                loops.go(first)
            time.sleep(1)
            clients = control.clients()
            wanted = next((one for one in clients if one.pid == first.pid), MpsClient(0, first.pid))
            if way == "killed at work":
                first.kill()
            else:
                print(f"{way}: {len(clients)} clients; says {control.terminate(wanted)!r}")
            if way == "terminated idle":
                time.sleep(1)
                with suppress(BrokenPipeError):
                    loops.go(first)
            _tell(f"{way}: it", first)
            _tell(f"{way}: its neighbour", second)
            print(f"{way}: server {control.ask(f'get_server_status {wanted.server}')}")
            later = loops.begin(1)
            print(f"{way}: a client that begins later makes {loops.rates(later)[0]:,.0f} products/s")
        except (MpsFailed, subprocess.SubprocessError, ValueError, OSError) as error:
            print(f"{way}: {error}")
        finally:
            loops.close()
    for name in ("control.log", "server.log"):
        log = Path(control.environment["CUDA_MPS_LOG_DIRECTORY"]) / name
        if log.exists():
            print(name, *log.read_text().splitlines()[-40:], sep="\n  ")


def _tell(who: str, process: subprocess.Popen[str]) -> None:
    try:
        out, errors = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        print(f"{who}: still runs after 20 s")
        return
    said = [line for line in errors.strip().splitlines() if "rror" in line][-2:]
    print(f"{who}: exit {process.returncode}, {out.strip() or '-'} products/s {said}")


def _end(control: MpsControl, device: str, size: int) -> None:
    control.set_defaults(100 / 48, {0: 4096})
    print(f"default of threads, of 48 shares: {control.default_threads():g} %")
    loops = Loops(device, size, control.environment)
    try:
        loops.go(loops.begin(60))
        begun = time.monotonic()
        control.end()
        print(f"end with a client at work: {time.monotonic() - begun:.1f} s; runs: {control.is_running()}")
    finally:
        loops.close()


PARTS = {"shares": _shares, "memory": _memory, "termination": _termination, "end": _end}


if __name__ == "__main__":
    sys.exit(main())
