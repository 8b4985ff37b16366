"""NVLink5's errors (Xid 144 to 150) are judged by NVIDIA's table of their units, sub-codes and statuses."""

import io

import pytest

from gpu_health.judge import FaultVerdict, judge
from gpu_health.policy.presets import preset
from gpu_health.signals.kernel_log import KernelLogParser, parse
from gpu_health.signals.nvlink5 import bucket


def verdict_of(number: int, text: str, name: str = "default") -> FaultVerdict:
    line = f"[100.5] NVRM: Xid (PCI:0009:01:00): {number}, {text}\n".encode()
    readings = list(parse(io.BytesIO(line), KernelLogParser()))
    (verdict,) = judge(readings, preset(name))
    return verdict


@pytest.mark.parametrize(
    ("number", "text", "outcome", "first"),
    [
        (149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000)", "propose", "reset_gpu"),
        (149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x026001c6 0x00000000)", "record", "alert"),
        (149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00000013 0x00000002)", "record", "alert"),
        (144, "SAW_MVB Fatal XC0 i0 Link 00 (0x00000001 0x00000010)", "propose", "reset_gpu"),
        (144, "SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000001 0x00000020)", "none", "ignore"),
        (145, "RLW_REMAP Nonfatal XC1 i0 Link 02 (0x00000004 0x00000010)", "record", "restart_app"),
        (147, "TREX Nonfatal XC0 i0 Link 00 (0x0000000e 0x80000000)", "record", "alert"),
        (150, "MSE_WATCHDOG Fatal XC0 i0 Link -1 (0x00000000 0x00000000)", "propose", "reset_gpu"),
    ],
)
def test_a_line_is_judged_by_its_row_of_the_table(number: int, text: str, outcome: str, first: str) -> None:
    for name in ("default", "nvidia"):
        verdict = verdict_of(number, text, name)
        assert (str(verdict.outcome), str(verdict.action)) == (outcome, first)


def test_what_the_table_does_not_list_is_judged_by_the_lines_own_severity() -> None:
    fatal = verdict_of(148, "NVLPW_CTRL Fatal XC0 i0 Link 00 (0x0000000f 0x00000001)")
    assert (fatal.action, fatal.severity) == ("reset_gpu", "fatal")
    assert verdict_of(148, "NVLPW_CTRL Nonfatal XC0 i0 Link 00 (0x0000000f 0x00000001)").action == "alert"


def test_of_several_errors_at_once_the_strictest_counts() -> None:
    assert bucket(144, "SAW_MVB", 0x1, 0x4) == "ignore"
    assert bucket(144, "SAW_MVB", 0x1, 0x4 | 0x1 | 0x2) == "reset_gpu"


def test_a_second_bit_of_the_register_asks_for_a_reset_in_either_drivers_layout() -> None:
    assert bucket(145, "RLW_RXPIPE", 0b0000110, 0x2) == "support"
    assert bucket(145, "RLW_RXPIPE", 0b10000110, 0x2) == "reset_gpu"
    assert bucket(145, "RLW_RXPIPE", 0b00011000010, 0x2) == "support"
    assert bucket(145, "RLW_RXPIPE", 0b10011000010, 0x2) == "reset_gpu"
    assert bucket(145, "RLW_RXPIPE", 0b10000110, 0x8) == "support"
