"""`dcgmi diag`, where NVIDIA's DCGM is installed: its own tests, with its own words.

Its JSON differs between the releases 3 (`results` by `gpu_ids`) and 4 (by `entity_id`); both are read.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from serving.checks.device import DeviceUnderTest
from serving.checks.report import CheckOutcome, DeviceCheck

NAME = "dcgm_diagnostic"
OUTCOMES = {"pass": CheckOutcome.PASSED, "fail": CheckOutcome.FAILED, "warn": CheckOutcome.WARNED}
SOFTWARE = "Deployment"
"""The category of tests that try no GPU."""
LISTED_WITHIN_SECONDS = 30.0
_LISTED = re.compile(
    r"^\|\s*(\d+)\s*\|(?:(?!^\|\s*\d+\s*\|).)*?Device UUID:\s*(GPU-[0-9a-fA-F-]+)", re.MULTILINE | re.DOTALL
)


def check(level: int, limit_seconds: float, targets: Sequence[DeviceUnderTest]) -> list[DeviceCheck]:
    """A check per GPU. Without DCGM one that is skipped; none at a level that does not ask DCGM."""
    if not level:
        return []
    tool = shutil.which("dcgmi")
    if tool is None:
        return [_one(CheckOutcome.SKIPPED, "DCGM is not installed here: there is no dcgmi.")]
    try:
        gpus = listed(_run(tool, ["discovery", "-l"], LISTED_WITHIN_SECONDS).stdout, targets)
        # Others of the machine may be somebody's.
        chosen = ["-i", ",".join(gpus)] if len(gpus) == len(targets) else []
        done = _run(tool, ["diag", "-r", str(level), "-j", *chosen], limit_seconds)
    except subprocess.TimeoutExpired as error:
        words = f"dcgmi {error.cmd[1]} did not end within {error.timeout:.0f} s."
        return [_one(CheckOutcome.FAILED if error.cmd[1] == "diag" else CheckOutcome.SKIPPED, words)]
    except OSError as error:
        return [_one(CheckOutcome.SKIPPED, f"dcgmi cannot be run: {error.strerror or error}.")]
    return read(done.stdout, gpus) or [
        _one(
            CheckOutcome.SKIPPED,
            f"dcgmi diag says nothing that can be read: {(done.stdout or done.stderr)[:200]!r}.",
        )
    ]


def _run(tool: str, arguments: Sequence[str], limit_seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool, *arguments],
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
        timeout=limit_seconds,
    )


def listed(text: str, targets: Sequence[DeviceUnderTest]) -> dict[str, DeviceUnderTest]:
    """Targets by DCGM's own number of a GPU, as `dcgmi discovery -l` lists them."""
    by_uuid = {target.uuid: target for target in targets if target.uuid}
    return {number: by_uuid[uuid] for number, uuid in _LISTED.findall(text) if uuid in by_uuid}


def read(text: str, gpus: Mapping[str, DeviceUnderTest]) -> list[DeviceCheck]:
    """Per GPU a check for each test that failed or warned; else one that says how many passed, or that none
    tried the GPU itself. Empty: it is no such report. `gpus`: by DCGM's numbers; of others nobody knows
    which they are."""
    start = text.find("{")
    try:
        told = json.loads(text[start:]) if start >= 0 else None
    except ValueError:
        return []
    if not isinstance(told, dict):
        return []
    body = next(
        (value for key, value in told.items() if key.startswith("DCGM") and isinstance(value, dict)), told
    )
    by_gpu: dict[str, list[tuple[CheckOutcome, bool, str]]] = {}
    for category in _dicts(body.get("test_categories")):
        tries_gpu = category.get("category") != SOFTWARE
        for test in _dicts(category.get("tests")):
            for result in _dicts(test.get("results")):
                outcome = OUTCOMES.get(str(result.get("status", "")).lower(), CheckOutcome.SKIPPED)
                words = _why(result) or str(result.get("status", ""))
                for number in _numbers(result):
                    said = f"{test.get('name', 'test')} on GPU {number or '?'}: {words}"
                    by_gpu.setdefault(number, []).append((outcome, tries_gpu, said))
    if all(
        outcome is CheckOutcome.SKIPPED for results in by_gpu.values() for outcome, _tries, _said in results
    ):
        return []
    return [one for number, results in by_gpu.items() for one in _of_gpu(results, gpus.get(number))]


def _of_gpu(
    results: Sequence[tuple[CheckOutcome, bool, str]], gpu: DeviceUnderTest | None
) -> list[DeviceCheck]:
    bad = [
        _one(outcome, said, gpu)
        for outcome, _tries, said in results
        if outcome in (CheckOutcome.FAILED, CheckOutcome.WARNED)
    ]
    if bad:
        return bad
    passed = [tries_gpu for outcome, tries_gpu, _said in results if outcome is CheckOutcome.PASSED]
    if not any(passed):
        return [_one(CheckOutcome.SKIPPED, "No test of DCGM tried this GPU itself.", gpu)]
    return [_one(CheckOutcome.PASSED, f"{len(passed)} tests of DCGM passed.", gpu)]


def _one(outcome: CheckOutcome, words: str, gpu: DeviceUnderTest | None = None) -> DeviceCheck:
    return gpu.check(NAME, outcome, words) if gpu else DeviceCheck(name=NAME, outcome=outcome, words=words)


def _dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())


def _numbers(result: Mapping[str, Any]) -> list[str]:
    """Return the numbers of the GPUs that a result is about; one blank: it does not say."""
    if result.get("entity_group", "GPU") != "GPU":
        return [""]
    told = next((result[name] for name in ("gpu_ids", "gpu_id", "entity_id") if name in result), "")
    return [number.strip() for number in str(told).split(",")]


def _why(result: Mapping[str, Any]) -> str:
    said = result.get("warnings") or result.get("info") or ""
    if isinstance(said, list):
        said = "; ".join(str(one.get("warning", one) if isinstance(one, dict) else one) for one in said)
    return str(said)
