"""AIPerf as the load engine: NVIDIA's generator by its command line, in an environment of its own.

It is handed our schedule with our request bodies, and its raw records are read as our own answers are: both
engines send the same requests, and only who sends them differs. Its own summary is not used.
"""

import json
import math
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmarks.load.engine import LoadTarget, TooFewCores, UnfitScenario
from benchmarks.load.max_rate import BrokenTargets
from benchmarks.load.openai import StreamedAnswer, body_of, plain_usage
from benchmarks.load.prompts import TokenRatio, prompt_of
from benchmarks.load.records import RequestRecord, WindowRecord
from benchmarks.load.scenario import LoadScenario
from benchmarks.load.schedule import PlannedRequest, schedule, window_seconds
from serving.environments import MAKE_WITHIN_SECONDS, LockedEnvironment, ensure_held
from serving.leash import end_with_parent
from serving.protocol import CHOSEN_BY_HEADER

LOCKED_FOR_PYTHON = "3.11"
REQUEST_CPU_SECONDS, TOKEN_CPU_SECONDS = 2.6e-3, 0.1e-3
"""Of a core, as measured: 3.4 ms of a request with 8 tokens, 9 ms with 64."""
MOST_BUSY = 0.5
START_SECONDS = 120.0
"""Its processes start and end in 15 s on two idle cores."""
_LOOK_EVERY_SECONDS = 0.5
# A WordLevel tokenizer of one word: nothing is counted with it, and nothing is downloaded for it.
_TOKENIZER: Mapping[str, Mapping[str, Any]] = {
    "tokenizer.json": {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
    },
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"},
    "config.json": {"model_type": "llama"},
}


class AiperfFailed(Exception):
    """The message has its last words."""


def environment() -> LockedEnvironment:
    lock = files("benchmarks.load").joinpath("locks", "aiperf.txt").read_text()
    return LockedEnvironment(name="aiperf", lock=lock, python=LOCKED_FOR_PYTHON)


class AiperfEngine:
    name = "aiperf"

    def __init__(self, environments: Path, directory: Path) -> None:
        """`environments`: where its environment is, or is made now, which takes minutes. `directory`: for its
        files while it runs. Raises EnvironmentNotMade."""
        self._program = ensure_held(environment(), environments) / "bin" / "aiperf"
        self._directory = directory

    def check(self, scenario: LoadScenario) -> None:
        if scenario.is_closed_loop and scenario.seconds:
            raise UnfitScenario("With AIPerf, fixed concurrency needs requests per window, not seconds.")
        if not scenario.is_closed_loop:
            workers(scenario, max(scenario.rates))

    def measure(
        self,
        scenario: LoadScenario,
        target: LoadTarget,
        ratio: TokenRatio,
        *,
        rate: float,
        window: int,
        broken: BrokenTargets | None = None,
    ) -> WindowRecord:
        """Send all requests of a window: its records come at its end, so that none ends early.

        Raises AiperfFailed, UnfitScenario.
        """
        if target.token:
            # It takes keys as arguments alone, which every process of the machine can read.
            raise UnfitScenario("AIPerf cannot be given a token safely: use the built-in load engine.")
        planned = schedule(scenario, rate, window=window)
        place = self._directory / f"aiperf-{window}"
        place.mkdir(parents=True)
        try:
            return self._measured(scenario, target, ratio, planned, place, rate=rate, window=window)
        finally:
            # Its files hold prompts and answers.
            shutil.rmtree(place, ignore_errors=True)

    def _measured(
        self,
        scenario: LoadScenario,
        target: LoadTarget,
        ratio: TokenRatio,
        planned: Sequence[PlannedRequest],
        place: Path,
        *,
        rate: float,
        window: int,
    ) -> WindowRecord:
        with (place / "requests.jsonl").open("w") as file:
            for one in planned:
                prompt = prompt_of(
                    one, ratio, shared_prefix=scenario.shared_prefix, prefix_seed=scenario.prefix_seed(window)
                )
                body = json.loads(body_of(scenario, target.model, prompt, one.output_tokens))
                at = {} if scenario.is_closed_loop else {"timestamp": one.at * 1000}
                file.write(json.dumps({"session_id": str(one.number), "payload": body, **at}) + "\n")
        for name, content in _TOKENIZER.items():
            (place / "tokenizer").mkdir(exist_ok=True)
            (place / "tokenizer" / name).write_text(json.dumps(content))
        seconds = window_seconds(scenario, rate, list(planned))
        within = (
            START_SECONDS
            + seconds
            + scenario.timeout_seconds * (math.ceil(len(planned) / rate) if scenario.is_closed_loop else 1)
        )
        usage = self._run(self._argv(scenario, target, place, rate), place, within)
        raw = {int(one["metadata"]["conversation_id"]): one for one in _raw_records(place)}
        if not raw:
            raise AiperfFailed(f"AIPerf recorded no request. {_last_words(place)}")
        issued = {
            number: one["start_perf_ns"]
            - (one["metadata"]["request_start_ns"] - one["metadata"]["credit_issued_ns"])
            for number, one in raw.items()
        }
        # Nothing is issued before its time: the least late request tells when the schedule began.
        due = {one.number: 0.0 if scenario.is_closed_loop else one.at for one in planned}
        start = min(at - due[number] * 1e9 for number, at in issued.items())
        record = WindowRecord(
            window=window, rate=rate, seconds=seconds, began_at=time.time() - (time.monotonic() - start / 1e9)
        )
        for one in planned:
            scheduled = (issued.get(one.number, start) - start) / 1e9 if scenario.is_closed_loop else one.at
            mine = RequestRecord(
                window=window,
                number=one.number,
                scheduled=scheduled,
                asked_input=one.input_tokens,
                asked_output=one.output_tokens,
            )
            if one.number in raw:
                _read(raw[one.number], mine, start, is_streamed=scenario.streaming)
            else:
                mine.sent = mine.ended = scheduled
                mine.error = "cancelled"
            record.requests.append(mine)
        record.took = max(one.ended for one in record.requests)
        record.client_cpu = _busiest(usage, start / 1e9, start / 1e9 + record.took)
        return record

    def _argv(self, scenario: LoadScenario, target: LoadTarget, place: Path, rate: float) -> list[str]:
        pace = ["--fixed-schedule"]
        if scenario.is_closed_loop:
            pace = [
                f"--concurrency={rate:.0f}",
                f"--request-count={scenario.count(rate)}",
                "--no-fixed-schedule",
            ]
        return [
            str(self._program),
            "profile",
            f"--model={target.model}",
            *(f"--url={one.rstrip('/')}" for one in target.addresses),
            f"--endpoint-type={scenario.api}",
            *(["--streaming"] if scenario.streaming else []),
            f"--input-file={place / 'requests.jsonl'}",
            "--custom-dataset-type=mooncake_trace",
            "--dataset-sampling-strategy=sequential",
            *pace,
            # No release judges a version by our requests.
            f"--header={CHOSEN_BY_HEADER}:client",
            "--use-server-token-count",
            f"--tokenizer={place / 'tokenizer'}",
            f"--random-seed={scenario.seed % 2**31}",
            f"--request-timeout-seconds={scenario.timeout_seconds:g}",
            f"--workers-max={1 if scenario.is_closed_loop else workers(scenario, rate)}",
            f"--artifact-dir={place / 'out'}",
            "--export-level=raw",
            "--ui-type=none",
            "--no-gpu-telemetry",
            "--no-server-metrics",
        ]

    def _run(self, argv: Sequence[str], place: Path, within: float) -> list[tuple[float, dict[int, float]]]:
        """Run it to its end; return the CPU seconds of its processes at moments of the monotonic clock."""
        # An address that nobody listens at: whatever it would download fails instead of leaving the machine.
        variables = {"HF_ENDPOINT": "http://127.0.0.1:9", "HOME": str(place), "DO_NOT_TRACK": "1"}
        usage = []
        deadline = time.monotonic() + within
        with (place / "said").open("wb") as said:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=place,
                env={"PATH": os.environ.get("PATH", ""), **variables},
                preexec_fn=end_with_parent,
            )
            while child.poll() is None:
                if time.monotonic() > deadline:
                    child.kill()
                    child.wait()
                    raise AiperfFailed(f"AIPerf did not end within {within:.0f} s. {_last_words(place)}")
                usage.append((time.monotonic(), _cpu_seconds(child.pid)))
                time.sleep(_LOOK_EVERY_SECONDS)
        return usage


def longest_overhead_seconds(windows: int) -> float:
    """Return how long its environment, and its starts for the warm-up and each window, take at most."""
    return MAKE_WITHIN_SECONDS + (1 + windows) * START_SECONDS


def workers(scenario: LoadScenario, rate: float, cores: int | None = None) -> int:
    """Return how many of its processes make this load. Raises TooFewCores."""
    cores = cores or len(os.sched_getaffinity(0))
    needed = _workers_at(scenario, rate)
    if needed > cores:
        raise TooFewCores.of(rate, _streamed_tokens(scenario), needed, cores)
    return needed


def cores_for(scenario: LoadScenario) -> int:
    """Return how many cores the load takes at its highest rate, with one for what is not a worker of it."""
    return 1 + (1 if scenario.is_closed_loop else _workers_at(scenario, max(scenario.rates)))


def _workers_at(scenario: LoadScenario, rate: float) -> int:
    each = REQUEST_CPU_SECONDS + _streamed_tokens(scenario) * TOKEN_CPU_SECONDS
    return max(1, math.ceil(rate * each / MOST_BUSY))


def _streamed_tokens(scenario: LoadScenario) -> float:
    return scenario.output.mean if scenario.streaming else 0


def _raw_records(place: Path) -> Iterator[Mapping[str, Any]]:
    """Records of requests; of several writers, where it did not join them at its end."""
    whole = sorted((place / "out").glob("*_raw.jsonl"))
    for path in whole or sorted((place / "out" / "raw_records").glob("*.jsonl")):
        with path.open() as file:
            yield from (json.loads(line) for line in file if line.strip())


def _read(raw: Mapping[str, Any], record: RequestRecord, start: float, *, is_streamed: bool) -> None:
    """Write what it recorded of a request into our record, as our own engine would."""
    told = raw["metadata"]

    def at(perf_ns: float) -> float:
        return float(perf_ns - start) / 1e9

    record.sent = at(raw["start_perf_ns"])
    record.ended = record.sent + (told["request_end_ns"] - told["request_start_ns"]) / 1e9
    if (status := raw.get("status")) not in (200, None):
        record.error = f"http {status}"
        return
    answers: Sequence[Any] = raw.get("responses") or ()
    try:
        if is_streamed:
            _read_stream(answers, record, at)
        else:
            record.last = at(answers[-1]["perf_ns"])
            whole = answers[-1].get("text") or answers[-1].get("raw_bytes") or json.dumps(answers[-1])
            record.input_tokens, record.output_tokens = plain_usage(str(whole).encode())
    except (ValueError, LookupError, EOFError, TypeError):
        record.error = _kind_of(raw.get("error") or {})


def _read_stream(answers: Iterable[Mapping[str, Any]], record: RequestRecord, at: Any) -> None:
    stream = StreamedAnswer(record)
    for message in answers:
        for packet in message.get("packets", ()):
            stream.feed(f"{packet['name']}: {packet.get('value') or ''}\n".encode(), at(message["perf_ns"]))
    stream.end()


def _kind_of(error: Mapping[str, Any]) -> str:
    said = f"{error.get('type', '')} {error.get('message', '')}".lower()
    if "timeout" in said:
        return "timeout"
    return "connect" if "connect" in said and "refused" in said else "broken"


def _cpu_seconds(pid: int) -> dict[int, float]:
    import psutil

    found: dict[int, float] = {}
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return found
    for one in family:
        try:
            used = one.cpu_times()
            found[one.pid] = used.user + used.system
        except psutil.Error:
            continue
    return found


def _busiest(usage: Sequence[tuple[float, dict[int, float]]], begin: float, end: float) -> float:
    """Return the share of a core that its busiest process used between two moments."""
    within = [one for one in usage if begin - _LOOK_EVERY_SECONDS <= one[0] <= end + _LOOK_EVERY_SECONDS]
    if len(within) < 2:
        return 0.0
    (first, before), (last, after) = within[0], within[-1]
    spent = [seconds - before[pid] for pid, seconds in after.items() if pid in before]
    return max(spent, default=0.0) / max(last - first, 1e-6)


def _last_words(place: Path) -> str:
    return " ".join((place / "said").read_text(errors="replace").split())[-600:]
