"""`dcgmi diag`, where NVIDIA's DCGM is installed: its own tests, with its own words.

Its JSON differs between the releases 3 (`results` by `gpu_ids`) and 4 (by `entity_id`); both are read.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from serving.checks.report import Check, Outcome

NAME = "dcgm_diagnostic"
OUTCOMES = {"pass": Outcome.PASSED, "fail": Outcome.FAILED, "warn": Outcome.FAILED}


def check(level: int, limit_seconds: float) -> list[Check]:
    """None where there is no DCGM: nothing is missing then."""
    tool = shutil.which("dcgmi")
    if tool is None or not level:
        return []
    try:
        told = subprocess.run(
            [tool, "diag", "-r", str(level), "-j"],
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=limit_seconds,
        )
    except subprocess.TimeoutExpired:
        return [_one(Outcome.FAILED, f"dcgmi diag -r {level} did not end within {limit_seconds:.0f} s.")]
    except OSError as error:
        return [_one(Outcome.SKIPPED, f"dcgmi cannot be run: {error.strerror or error}.")]
    return read(told.stdout) or [
        _one(
            Outcome.SKIPPED,
            f"dcgmi diag says nothing that can be read: {(told.stdout or told.stderr)[:200]!r}.",
        )
    ]


def read(text: str) -> list[Check]:
    """A check per test that failed, and one that says how many passed. Empty: it is no such report."""
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
    found = [
        (str(test.get("name", "test")), result)
        for category in _dicts(body.get("test_categories"))
        for test in _dicts(category.get("tests"))
        for result in _dicts(test.get("results"))
    ]
    judged = [(name, result, OUTCOMES.get(str(result.get("status", "")).lower())) for name, result in found]
    tried = [one for one in judged if one[2] is not None]
    if not tried:
        return []
    failed = [
        _one(Outcome.FAILED, f"{name} on GPU {_gpu(result)}: {_why(result) or result['status']}")
        for name, result, outcome in tried
        if outcome is Outcome.FAILED
    ]
    passed = len(tried) - len(failed)
    return failed or [_one(Outcome.PASSED, f"{passed} tests of DCGM passed.")]


def _one(outcome: Outcome, words: str) -> Check:
    return Check(name=NAME, outcome=outcome, words=words)


def _dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())


def _gpu(result: Mapping[str, Any]) -> str:
    return str(result.get("gpu_ids") or result.get("gpu_id") or result.get("entity_id", "?"))


def _why(result: Mapping[str, Any]) -> str:
    said = result.get("warnings") or result.get("info") or ""
    if isinstance(said, list):
        said = "; ".join(str(one.get("warning", one) if isinstance(one, dict) else one) for one in said)
    return str(said)
