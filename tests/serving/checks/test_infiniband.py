"""Ports of the network pass only when data went over them."""

from pathlib import Path
from typing import Any

import pytest

from serving.checks import collective, infiniband
from serving.checks.device import processor
from serving.checks.report import CheckOutcome, DeviceCheck

pytestmark = pytest.mark.any_database
TWO = [processor(), processor()]


def port(root: Path, name: str, state: str = "4: ACTIVE") -> Path:
    path = root / name / "ports" / "1"
    (path / "counters").mkdir(parents=True)
    (path / "state").write_text(f"{state}\n")
    (path / "counters" / infiniband.SENT).write_text("1000\n")
    (path / "counters" / "symbol_error").write_text("7\n")
    return path


def outcomes(root: Path) -> dict[str, CheckOutcome]:
    return {check.port: check.outcome for check in infiniband.check(TWO, 0.0, root)}


@pytest.fixture
def reduced(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The all-reduce, which sends over `sends` and leaves its environment here."""
    asked: list[dict[str, Any]] = []

    def check(targets: Any, seconds: float, *, environment: Any) -> DeviceCheck:
        asked.append(dict(environment))
        for path in sends:
            (path / "counters" / infiniband.SENT).write_text(str(10**9))
        return answer[0]

    sends: list[Path] = []
    answer = [
        DeviceCheck(name=collective.NAME, outcome=CheckOutcome.MEASURED, words="40 GB/s", measured=40.0)
    ]
    monkeypatch.setattr(collective, "check", check)
    asked.append({"sends": sends, "answer": answer})
    return asked


def test_a_port_passes_when_its_own_counter_shows_the_traffic(
    tmp_path: Path, reduced: list[dict[str, Any]]
) -> None:
    reduced[0]["sends"].append(port(tmp_path, "mlx5_0"))
    port(tmp_path, "mlx5_1")
    port(tmp_path, "mlx5_2", "1: DOWN")

    assert outcomes(tmp_path) == {
        "mlx5_0/1": CheckOutcome.PASSED,
        "mlx5_1/1": CheckOutcome.SKIPPED,
        "mlx5_2/1": CheckOutcome.SKIPPED,
    }
    assert reduced[1]["NCCL_NET"] == "IB"
    assert reduced[1]["NCCL_P2P_DISABLE"] == "1"


def test_errors_that_rise_under_load_are_a_failure(
    tmp_path: Path, reduced: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = infiniband._counters(port(tmp_path, "mlx5_0"))
    counts = iter([before, {**before, infiniband.SENT: 10**9, "symbol_error": 9}])
    monkeypatch.setattr(infiniband, "_counters", lambda _: next(counts))

    (check,) = infiniband.check(TWO, 0.0, tmp_path)

    assert check.outcome is CheckOutcome.FAILED
    assert check.words == "Errors rose under load: symbol_error by 2."


def test_an_all_reduce_that_cannot_use_the_network_is_a_failure(
    tmp_path: Path, reduced: list[dict[str, Any]]
) -> None:
    port(tmp_path, "mlx5_0")
    reduced[0]["answer"][0] = DeviceCheck(
        name=collective.NAME, outcome=CheckOutcome.FAILED, words="rank 0: network IB not found"
    )

    assert [check.outcome for check in infiniband.check(TWO, 0.0, tmp_path)] == [CheckOutcome.FAILED]


def test_a_machine_without_ports_has_no_such_check_and_one_gpu_alone_sends_nothing(tmp_path: Path) -> None:
    assert infiniband.check(TWO, 0.0, tmp_path) == []

    port(tmp_path, "mlx5_0")
    (check,) = infiniband.check(TWO[:1], 0.0, tmp_path)
    assert check.outcome is CheckOutcome.SKIPPED
