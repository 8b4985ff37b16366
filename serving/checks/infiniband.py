"""InfiniBand and RoCE ports under the load of an all-reduce that may take no other way between the GPUs.

Within a machine NCCL never uses the network by itself. With its peer-to-peer and shared-memory transports off
it does (NCCL's documentation, NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_NET). A port has passed only when
its own counters show that data went over it, and no error rose meanwhile.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from serving.checks import collective
from serving.checks.device import DeviceUnderTest
from serving.checks.report import CheckOutcome, DeviceCheck

NAME = "infiniband"
ROOT = Path("/sys/class/infiniband")
NETWORK_ALONE = {"NCCL_NET": "IB", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
ERRORS = ("symbol_error", "link_error_recovery", "link_downed", "local_link_integrity_errors",
          "excessive_buffer_overrun_errors")  # fmt: skip
SENT = "port_xmit_data"
BYTES_PER_COUNT = 4
LEAST_BYTES = 2**20
"""Less than that is the traffic of a port that NCCL does not use."""
UNIT = "GB"


def check(targets: Sequence[DeviceUnderTest], seconds: float, root: Path = ROOT) -> list[DeviceCheck]:
    """A check per port; none on a machine without ports."""
    ports = {f"{path.parent.parent.name}/{path.name}": path for path in sorted(root.glob("*/ports/*"))}
    states = {port: _state(path) for port, path in ports.items()}
    down = [
        _of(port, CheckOutcome.SKIPPED, f"The port is {state or 'unknown'}: nothing can go over it.")
        for port, state in states.items()
        if state != "ACTIVE"
    ]
    active = {port: path for port, path in ports.items() if states[port] == "ACTIVE"}
    if not active:
        return down
    before = {port: _counters(path) for port, path in active.items()}
    reduced = collective.check(targets, seconds, environment=NETWORK_ALONE)
    if reduced.outcome in (CheckOutcome.SKIPPED, CheckOutcome.INCONCLUSIVE) and reduced.measured is None:
        return down + [_of(port, reduced.outcome, reduced.words) for port in active]
    if reduced.outcome is CheckOutcome.FAILED and reduced.measured is None:
        return [*down, _of("", CheckOutcome.FAILED, f"All-reduce over the network alone: {reduced.words}")]
    return down + [_judge(port, before[port], _counters(path)) for port, path in active.items()]


def _judge(port: str, before: Mapping[str, int], after: Mapping[str, int]) -> DeviceCheck:
    rose = [f"{name} by {after[name] - before[name]}" for name in ERRORS if after[name] > before[name]]
    sent = (after[SENT] - before[SENT]) * BYTES_PER_COUNT
    if rose:
        return _of(port, CheckOutcome.FAILED, f"Errors rose under load: {', '.join(rose)}.")
    if sent < LEAST_BYTES:
        return _of(port, CheckOutcome.SKIPPED, "The all-reduce did not go over this port.")
    return _of(
        port, CheckOutcome.PASSED, f"{sent / 1e9:,.3g} GB were sent over it without an error.", sent / 1e9
    )


def _of(port: str, outcome: CheckOutcome, words: str, sent: float | None = None) -> DeviceCheck:
    unit = "" if sent is None else UNIT
    return DeviceCheck(name=NAME, outcome=outcome, words=words, port=port, measured=sent, unit=unit)


def _state(path: Path) -> str:
    """`ACTIVE` of `4: ACTIVE`; blank: it cannot be read."""
    try:
        return (path / "state").read_text().partition(":")[2].strip()
    except OSError:
        return ""


def _counters(path: Path) -> dict[str, int]:
    """A counter that the port does not have is zero."""
    found = {}
    for name in (SENT, *ERRORS):
        try:
            found[name] = int((path / "counters" / name).read_text())
        except (OSError, ValueError):
            found[name] = 0
    return found
