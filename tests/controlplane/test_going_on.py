"""When `bin/up` says that it is ready."""

from typing import Any

import pytest

from controlplane.embedded.launcher import ELSEWHERE_WITHIN_SECONDS, may_go_on


def report(*sick: str, vital: bool = False) -> dict[str, Any]:
    parts = {name: {"ok": name not in sick, "vital": False} for name in ("clusters", "gateway", "worker")}
    return {"ready": not vital, "healthy": not sick, "parts": parts}


@pytest.mark.parametrize(
    ("said", "seconds", "goes_on"),
    [
        (report(), 1.0, True),
        ({}, 500.0, False),
        (report("clusters", "gateway"), ELSEWHERE_WITHIN_SECONDS - 1, False),
        (report("clusters", "gateway"), ELSEWHERE_WITHIN_SECONDS, True),
        (report("clusters", "worker"), ELSEWHERE_WITHIN_SECONDS, False),
        (report("clusters", vital=True), ELSEWHERE_WITHIN_SECONDS, False),
    ],
)
def test_a_cluster_that_is_away_keeps_nothing_else_from_starting(
    said: dict[str, Any], seconds: float, goes_on: bool
) -> None:
    assert may_go_on(said, seconds=seconds) is goes_on
