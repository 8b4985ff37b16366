"""What is asked again and again: NVML, dcgm-exporter, InfiniBand, Kubernetes. Begun and over, once each."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_health.judge import VerdictOutcome, judge
from gpu_health.policy.presets import preset
from gpu_health.signals.dcgm import DcgmReader
from gpu_health.signals.infiniband import InfinibandReader
from gpu_health.signals.kubernetes import KubernetesReader
from gpu_health.signals.nvml import NvmlReader
from gpu_health.signals.reading import GpuReading, ReadingKind

RULES = preset("default")
UUID = "GPU-509665ad-b600-ac93-3616-d754b23d636d"


def told(readings: list[GpuReading]) -> list[tuple[str, str]]:
    return [(one.fault, str(one.kind)) for one in faults(readings)]


def faults(readings: Sequence[GpuReading]) -> list[GpuReading]:
    return [one for one in readings if one.kind is not ReadingKind.FACT or one.fault == "driver.version"]


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class Library:
    """A stand-in for pynvml with one GPU. An older driver lacks what is not here."""

    def __init__(self) -> None:
        self.fails: dict[str, int] = {}
        self.uncorrected = 0
        self.rows = (0, 0, 0, 0)
        self.reasons = 0
        self.width = 16
        self.action = 0
        self.links = {0: 1, 1: 1}

    def __getattribute__(self, name: str) -> Any:
        fails = object.__getattribute__(self, "__dict__").get("fails", {})
        if name in fails:

            def fail(*_: Any) -> None:
                raise NvmlError(fails[name])

            return fail
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86.15"

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetPciInfo(self, _: int) -> Any:
        return SimpleNamespace(busId=b"00000000:9B:00.0")

    def nvmlDeviceGetUUID(self, _: int) -> str:
        return UUID

    def nvmlDeviceGetTotalEccErrors(self, _: int, kind: int, _counter: int) -> int:
        return self.uncorrected if kind == 1 else 0

    def nvmlDeviceGetRemappedRows(self, _: int) -> tuple[int, int, int, int]:
        return self.rows

    def nvmlDeviceGetCurrentClocksEventReasons(self, _: int) -> int:
        return self.reasons

    def nvmlDeviceGetCurrPcieLinkWidth(self, _: int) -> int:
        return self.width

    def nvmlDeviceGetMaxPcieLinkWidth(self, _: int) -> int:
        return 16

    def nvmlDeviceGetNvLinkState(self, _: int, link: int) -> int:
        if link not in self.links:
            raise NvmlError(3)
        return self.links[link]

    def nvmlDeviceGetFieldValues(self, _: int, _fields: list[int]) -> list[Any]:
        return [SimpleNamespace(nvmlReturn=0, valueType=1, value=SimpleNamespace(uiVal=self.action))]


def test_nvml_tells_what_rose_what_began_and_what_is_over() -> None:
    library = Library()
    reader = NvmlReader(library, session="s", expected_gpus=1)
    assert told(reader.read(0.0)) == [("driver.version", "fact")]

    library.uncorrected, library.rows, library.width, library.links = 1, (0, 513, 1, 0), 8, {0: 1, 1: 0}
    worse = reader.read(60.0)
    assert told(worse) == [
        ("ecc.double_bit", "fault"),
        ("row_remap.pending", "fault"),
        ("row_remap.uncorrectable", "fault"),
        ("pcie.width", "fault"),
        ("nvlink.down", "fault"),
    ]
    assert {(one.gpu_bus_id, one.gpu_uuid) for one in worse} == {("0000:9b:00", UUID)}
    assert reader.read(120.0) == []

    library.rows, library.width, library.links = (0, 513, 0, 0), 16, {0: 1, 1: 1}
    assert told(reader.read(180.0)) == [
        ("row_remap.pending", "cleared"),
        ("pcie.width", "cleared"),
        ("nvlink.down", "cleared"),
    ]


def after_a_restart(library: Library, *, at: float, session: str = "later") -> list[GpuReading]:
    return NvmlReader(library, session=session).read(at)


def test_what_is_gone_when_the_agent_starts_again_is_over() -> None:
    library = Library()
    library.rows, library.links, library.action = (0, 513, 1, 0), {0: 1, 1: 0, 2: 0}, 1
    before = NvmlReader(library, session="first").read(0.0)
    library.rows, library.links, library.action = (0, 513, 0, 0), {0: 1, 1: 1, 2: 0}, 0
    verdicts = {one.fault: one for one in judge(before + after_a_restart(library, at=60.0), RULES)}

    assert (
        verdicts["row_remap.pending"].outcome
        is verdicts["gpu.recovery_action"].outcome
        is VerdictOutcome.NONE
    )
    assert verdicts["nvlink.down"].outcome is VerdictOutcome.PROPOSE


def test_a_gpu_that_does_not_answer_any_more_is_not_taken_for_cured() -> None:
    library = Library()
    library.rows = (0, 513, 1, 0)
    before = NvmlReader(library, session="first").read(0.0)
    library.fails = {"nvmlDeviceGetUUID": 15}
    verdicts = {one.fault: one.outcome for one in judge(before + after_a_restart(library, at=60.0), RULES)}

    assert verdicts["row_remap.pending"] is VerdictOutcome.PROPOSE


def test_a_detector_that_failed_before_a_restart_is_believed_again() -> None:
    broken = Library()
    broken.fails = {"nvmlInit": 9}
    library = Library()
    library.rows = (0, 513, 1, 0)
    readings = NvmlReader(broken, session="first").read(0.0) + after_a_restart(library, at=60.0)
    verdicts = {one.fault: one.outcome for one in judge(readings, RULES)}

    assert verdicts == {"detector.nvml": VerdictOutcome.NONE, "row_remap.pending": VerdictOutcome.PROPOSE}


def test_a_link_that_is_up_again_says_nothing_about_another_one() -> None:
    library = Library()
    library.links = {0: 0, 1: 0}
    reader = NvmlReader(library, session="s")
    readings = reader.read(0.0)
    library.links = {0: 1, 1: 0}
    readings += reader.read(60.0)
    assert [one.outcome for one in judge(readings, RULES)] == [VerdictOutcome.PROPOSE]

    library.links = {0: 1, 1: 1}
    assert [one.outcome for one in judge(readings + reader.read(120.0), RULES)] == [VerdictOutcome.NONE]


def test_clocks_that_are_held_back_are_counted_until_a_rule_has_enough() -> None:
    library = Library()
    library.reasons = 0x40 | 0x04
    reader = NvmlReader(library, session="s")
    readings = [one for minute in range(6) for one in reader.read(60.0 * minute)]
    verdicts = {one.fault: one.outcome for one in judge(readings, preset("default"))}

    assert verdicts["clocks.thermal_slowdown"] is VerdictOutcome.RECORD
    assert verdicts["power.software_cap"] is VerdictOutcome.NONE


def test_the_recovery_action_that_nvml_tells_outranks_the_rule() -> None:
    library = Library()
    reader = NvmlReader(library, session="s")
    readings = reader.read(0.0)
    library.action, library.uncorrected = 2, 3
    readings += reader.read(60.0)
    verdicts = {one.fault: one for one in judge(readings, preset("default"))}

    assert verdicts["ecc.double_bit"].ladder[0] == "reboot"


@pytest.mark.parametrize(
    ("call", "code", "fault", "kind"),
    [
        ("nvmlInit", 9, "detector.nvml", ReadingKind.DETECTOR),
        ("nvmlInit", 18, "driver.mismatch", ReadingKind.FAULT),
        ("nvmlDeviceGetCount", 999, "detector.nvml", ReadingKind.DETECTOR),
        ("nvmlDeviceGetUUID", 15, "gpu.lost", ReadingKind.FAULT),
        ("nvmlDeviceGetRemappedRows", 16, "gpu.reset_required", ReadingKind.FAULT),
    ],
)
def test_what_nvml_cannot_answer_is_told_apart(call: str, code: int, fault: str, kind: ReadingKind) -> None:
    library = Library()
    library.fails = {call: code}
    reader = NvmlReader(library, session="s", expected_gpus=1)
    found = [one for one in reader.read(0.0) if one.kind is not ReadingKind.FACT]

    assert [(one.fault, one.kind) for one in found] == [(fault, kind)]
    library.fails = {}
    assert (fault, "cleared") in told(reader.read(60.0))


def test_a_gpu_that_nvml_misses_is_not_acted_on_while_nvml_fails() -> None:
    library = Library()
    reader = NvmlReader(library, session="s", expected_gpus=8)
    missing = reader.read(0.0)
    library.fails = {"nvmlInit": 9}
    failing = reader.read(60.0)
    outcome = {one.fault: one.outcome for one in judge([*missing, *failing], preset("default"))}

    assert ("gpu.count_mismatch", "fault") in told(missing)
    assert outcome["gpu.count_mismatch"] is VerdictOutcome.ALERT


LABELS = f'{{gpu="0",UUID="{UUID}",pci_bus_id="00000000:9B:00.0",Hostname="box"}}'


def exported(**values: float) -> str:
    return "# HELP x\n" + "".join(f"DCGM_FI_DEV_{name}{LABELS} {value}\n" for name, value in values.items())


def test_dcgms_last_xid_is_one_when_it_changes_and_not_before() -> None:
    reader = DcgmReader(session="s")

    assert faults(reader.read(exported(XID_ERRORS=31), 0.0)) == []
    assert reader.read(exported(XID_ERRORS=31), 60.0) == []
    assert told(reader.read(exported(XID_ERRORS=79), 120.0)) == [("xid.79", "fault")]


def test_dcgms_fields_become_faults_by_their_ids() -> None:
    reader = DcgmReader(session="s")
    healthy = {
        "ECC_DBE_VOL_TOTAL": 0.0, "ROW_REMAP_FAILURE": 0.0, "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": 0.0,
        "PCIE_MAX_LINK_WIDTH": 16.0, "PCIE_LINK_WIDTH": 16.0, "FABRIC_HEALTH_MASK": 0b10,
        "FABRIC_MANAGER_STATUS": 3,
    }  # fmt: skip
    assert faults(reader.read(exported(**healthy), 0.0)) == []
    found = reader.read(
        exported(
            ECC_DBE_VOL_TOTAL=1,
            ROW_REMAP_FAILURE=1,
            NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL=12_000,
            PCIE_MAX_LINK_WIDTH=16,
            PCIE_LINK_WIDTH=4,
            FABRIC_HEALTH_MASK=0b01,
            FABRIC_MANAGER_STATUS=4,
        ),
        60.0,
    )

    assert sorted(one.fault for one in found) == [
        "ecc.double_bit",
        "fabric_health.fault",
        "fabric_manager.down",
        "nvlink.crc",
        "pcie.width",
        "row_remap.failed",
    ]
    assert {one.value for one in found if one.fault == "nvlink.crc"} == {200.0}
    assert {one.gpu_bus_id for one in found} == {"0000:9b:00"}


def test_an_exporter_that_is_gone_is_no_fault_of_a_gpu() -> None:
    reader = DcgmReader(session="s")
    gone = reader.unreachable("connection refused", 0.0)

    assert [one.outcome for one in judge(gone, preset("default"))] == [VerdictOutcome.ALERT]
    assert reader.unreachable("connection refused", 60.0) == []
    assert told(reader.read("", 120.0)) == [("detector.dcgm", "cleared")]


@given(st.text(max_size=300))
def test_nothing_that_an_exporter_says_raises(noise: str) -> None:
    reader = DcgmReader(session="s")
    for at, text in enumerate(
        (noise, f"DCGM_FI_DEV_XID_ERRORS{{{noise}}} 1", f"DCGM_FI_DEV_XID_ERRORS{LABELS} {noise}")
    ):
        reader.read(text, float(at))


def port(root: Path, *, state: str = "4: ACTIVE", **counters: int) -> None:
    path = root / "mlx5_0/ports/1"
    (path / "counters").mkdir(parents=True, exist_ok=True)
    (path / "state").write_text(f"{state}\n")
    for name, value in counters.items():
        (path / "counters" / name).write_text(f"{value}\n")


def test_a_port_that_goes_down_and_comes_back_has_flapped(tmp_path: Path) -> None:
    reader = InfinibandReader(session="s", root=tmp_path)
    port(tmp_path)
    assert told(reader.read(0.0)) == [("ib.port_down", "cleared")]
    port(tmp_path, state="1: DOWN")
    down = [one for minute in (1, 2, 3) for one in reader.read(60.0 * minute)]
    port(tmp_path)
    back = reader.read(240.0)

    assert [one.ladder[0] for one in judge(down, preset("default"))] == ["replace"]
    assert told(back) == [("ib.flap", "fault"), ("ib.port_down", "cleared")]


def test_a_port_that_never_was_up_is_not_plugged_in(tmp_path: Path) -> None:
    port(tmp_path, state="1: DOWN")

    assert faults(InfinibandReader(session="s", root=tmp_path).read(0.0)) == []
    assert InfinibandReader(session="s", root=tmp_path / "none").read(0.0) == []


def test_counters_of_ports_are_judged_by_second_and_by_hour(tmp_path: Path) -> None:
    reader = InfinibandReader(session="s", root=tmp_path)
    port(tmp_path, symbol_error=0, link_downed=0)
    reader.read(0.0)
    port(tmp_path, symbol_error=130, link_downed=1)
    soon, later = reader.read(60.0), reader.read(3_700.0)

    assert [(one.fault, one.detail("per")) for one in soon] == [
        ("ib.fatal_counter", ""),
        ("ib.symbol_errors", "second"),
    ]
    assert [(one.value, one.detail("per")) for one in later] == [(130.0, "hour")]
    assert [one.severity for one in judge(later, preset("default"))] == ["fatal"]


def test_counters_that_cannot_be_read_are_a_failing_detector(tmp_path: Path) -> None:
    port(tmp_path, symbol_error=0)
    (tmp_path / "mlx5_0/ports/1/counters/symbol_error").write_text("?")

    assert [one.kind for one in InfinibandReader(session="s", root=tmp_path).read(0.0)] == [
        ReadingKind.DETECTOR
    ]


def node(*conditions: tuple[str, str, str], capacity: int = 8, allocatable: int = 8) -> dict[str, Any]:
    rows = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    resources = {
        "capacity": {"nvidia.com/gpu": f"{capacity}"},
        "allocatable": {"nvidia.com/gpu": f"{allocatable}"},
    }
    return {"status": {"conditions": rows, **resources}}


@pytest.mark.parametrize(
    ("condition", "faults"),
    [
        (("KernelDeadlock", "True", "DockerHung"), ["kernel.deadlock"]),
        (("KernelDeadlock", "False", "KernelHasNoDeadlock"), []),
        (("XidCriticalError", "True", '{"79":true,"48":false}'), ["xid.79"]),
        (("AcceleratedHardwareReady", "False", "NvidiaXID79Error"), ["xid.79"]),
        (("AcceleratedHardwareReady", "False", "NvidiaDoubleBitError"), ["ecc.double_bit"]),
        (("AcceleratedHardwareReady", "True", "NvidiaAcceleratedHardwareIsReady"), []),
        (("AcceleratedHardwareReady", "Unknown", "NvidiaXID79Error"), []),
        (("GPUMissing", "True", "GPUMissing"), ["gpu.count_mismatch"]),
        (("SomebodysOwn", "True", "XID 79"), []),
    ],
)
def test_conditions_are_read_by_their_polarity(condition: tuple[str, str, str], faults: list[str]) -> None:
    reader = KubernetesReader(session="s", node="box")

    assert [one.fault for one in reader.read_node(node(condition), 0.0)] == faults
    assert reader.read_node(node(condition), 60.0) == []
    assert [one.kind for one in reader.read_node(node(), 120.0)] == [ReadingKind.CLEARED] * len(faults)


def test_gpus_that_are_not_allocatable_are_seen_until_they_are() -> None:
    reader = KubernetesReader(session="s", node="box")

    assert told(reader.read_node(node(allocatable=7), 0.0)) == [("device_plugin.unhealthy", "fault")]
    assert told(reader.read_node(node(), 60.0)) == [("device_plugin.unhealthy", "cleared")]


@pytest.mark.parametrize("broken", [{}, {"status": None}, {"status": {"conditions": ["x"], "capacity": 3}}])
def test_a_node_of_another_form_says_nothing(broken: dict[str, Any]) -> None:
    assert KubernetesReader(session="s", node="box").read_node(broken, 0.0) == []


def test_an_event_tells_its_xid() -> None:
    reader = KubernetesReader(session="s", node="box")
    event = {"uid": "1", "reason": "NvidiaXID31Warning", "message": "GPU memory page fault"}

    assert [one.fault for one in reader.read_event(event, 0.0)] == ["xid.31"]
    assert reader.read_event({"reason": "Rebooted"}, 0.0) == []
