"""Faults beside those of GPUs, the forms of logs, and lines that only look like faults."""

import io

import pytest

from gpu_health.judge import VerdictOutcome, judge
from gpu_health.policy.presets import complete
from gpu_health.signals.kernel_log import KernelLogParser, parse
from gpu_health.signals.log_forms import LogForm
from gpu_health.signals.reading import GpuReading, ReadingClock, ReadingKind

FAULTS = {
    b"pcieport 0000:80:01.1: PCIe Bus Error: severity=Corrected": "pcie.aer_corrected",
    b"nvidia 0000:81:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal)": "pcie.aer_uncorrected",
    b"nvidia 0000:81:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal)": "pcie.aer_uncorrected",
    b"mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: b200000000070f0f": "cpu.machine_check",
    b"mce: [Hardware Error]: Machine check events logged": "cpu.machine_check",
    b"{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0": "cpu.machine_check",
    b"EDAC MC0: 1 CE memory read error on DIMM#0": "memory.edac_corrected",
    b"EDAC MC1: 2 UE memory read error on any memory": "memory.edac_uncorrected",
    b"mlx5_core 0000:5e:00.0 eth2: TX timeout detected": "net.mlx5",
    b"mlx5_core 0000:5e:00.0: poll_health:801:(pid 0): health compromised": "net.mlx5",
    b"mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error": "net.mlx5",
    b"nvme nvme0: I/O 64 QID 3 timeout, aborting": "disk.nvme_timeout",
    b"nvme nvme1: I/O tag 64 (1040) opcode 0x2 (I/O Cmd) QID 3 timeout, reset": "disk.nvme_timeout",
    b"watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:4711]": "kernel.lockup",
    b"NMI watchdog: Watchdog detected hard LOCKUP on cpu 5": "kernel.lockup",
    b"NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2477)": "driver.init_failed",
    b"NVRM: rm_init_adapter failed for device bearing minor number 0": "driver.init_failed",
    b"NVRM: knvlinkDiscoverPostRxDetLinks_GH100: postRxDetLinkMask failed!": "nvlink.detection",
    b"NVRM: Xid (PCI:3b:00): 48, DBE": "xid.48",
    b"NVRM: GPU 3b:00.0: GPU has fallen off the bus.": "xid.79",
    b"nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 10004, SOE Watchdog error": "sxid.unrated",
}
INNOCENT = (
    b"pcieport 0000:00:1c.0: AER: enabled with IRQ 122",
    b"pcieport 0000:00:1c.0: AER: Multiple Corrected error message received from 0000:81:00.0",
    b"acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability LTR]",
    b"aer_status: 0x00000000, aer_mask: 0x00000000",
    b"mce: CPU0: Thermal monitoring enabled (TM1)",
    b"mce: CPU supports 32 MCE banks",
    b"MCE: In-kernel MCE decoding enabled.",
    b"RAS: Correctable Errors collector initialized.",
    b"EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0",
    b"EDAC MC: Ver: 3.0.0",
    b"EDAC amd64: MCT channel count: 8",
    b"mlx5_core 0000:5e:00.0: firmware version: 22.35.1012",
    b"mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged",
    b"mlx5_core 0000:5e:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)",
    b"mlx5_core 0000:5e:00.0 eth2: Link up",
    b"mlx5_core 0000:5e:00.0: mlx5_health: enabled",
    b"nvme nvme0: 32/0/0 default/read/poll queues",
    b"nvme nvme0: Shutdown timeout set to 10 seconds",
    b"nvme nvme0: Abort status: 0x0",
    b"nvme nvme0: pci function 0000:01:00.0",
    b"NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
    b"watchdog: Delayed init of the lockup detector failed: -19",
    b"rcu: \tOffload RCU callbacks from CPUs: (none).",
    b"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build",
    b"NVRM: A GPU crash dump has been created. If possible, please run nvidia-bug-report.sh",
    b"NVRM: GPU Board Serial Number: 1650124014249",
    b"NVRM: GPU4 RPC history (CPU -> GSP):",
    b"NVRM: nvidia-smi (xid tool) started",
    b"nvidia-nvswitch2: open (major=510)",
    b"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Severity 0 Engine instance 46 Sub-engine instance 00",
    b"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Data {0x00140004, 0x00100000, 0x00140004}",
    b"nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping",
    b"pt_main_thread[2536443]: segfault at 7f797fe00000 ip 00007f7c7ac69996 error 4 in libnccl.so.2",
    b"EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
    b"EXT4-fs (nvme0n1p1): re-mounted. Quota mode: none.",
    b"systemd[1]: Remounting filesystem read-only was asked by a user",
    b"python[7]: EDAC MC0: 1 UE memory read error, says a log that was printed",
    b"audit: comm=\"nvme nvme0: I/O 1 QID 2 timeout, aborting\"",
    b"usb 1-1: soft lockup is a word of this product",
    b"Kernel command line: pci=noaer mce=off nmi_watchdog=0 hardlockup_panic=1",
)  # fmt: skip
FORMS = {
    b"Feb 23 16:24:18.250000 gpu-1 kernel: ": 1740327858.25,
    b"Sun 2025-02-23 16:24:18 UTC gpu-1 kernel: ": 1740327858.0,
    b"[  206.764307] gpu-1 kernel: ": 206.764307,
    b"<4>1 2025-02-23T17:24:18.250000+01:00 gpu-1 kernel - - - ": 1740327858.25,
    b'<4>1 2025-02-23T16:24:18Z gpu-1 kernel - - [meta sequenceId="1"] [ 206.764307] ': 1740327858.0,
    b"172.20.0.2: kern:    warning: [2025-02-23T16:24:18.25Z]: ": 1740327858.25,
    b"kern: warning: [2025-02-23T16:24:18.25Z]: ": 1740327858.25,
    "févr. 23 16:24:18 gpu-1 kernel: ".encode(): 1740327858.0,
    "2月 23 16:24:18 gpu-1 kernel: ".encode(): 1740327858.0,
    "фев 23 16:24:18 gpu-1 kernel: ".encode(): 1740327858.0,
}


def read(log: bytes) -> list[GpuReading]:
    return list(parse(io.BytesIO(log), KernelLogParser(year=2025)))


@pytest.mark.parametrize("prefix", [b"[   12.5] ", b"4,77,1843308145,-;", *FORMS])
@pytest.mark.parametrize(("line", "fault"), FAULTS.items())
def test_faults_of_machines_are_seen_in_every_form_of_log(prefix: bytes, line: bytes, fault: str) -> None:
    (reading,) = read(prefix + line + b"\n")

    assert (reading.fault, reading.kind) == (fault, ReadingKind.FAULT)
    (verdict,) = judge([reading], complete("default"))
    assert verdict.outcome is not VerdictOutcome.NONE
    assert fault.startswith("xid.") or not verdict.ladder[0].touches_node


@pytest.mark.parametrize("prefix", [b"", b"[   12.5] ", b"4,77,1843308145,-;", *FORMS])
def test_innocent_lines_are_no_faults(prefix: bytes) -> None:
    log = b"".join(prefix + line + b"\n" for line in INNOCENT)

    assert [one.raw for one in read(log) if one.kind is ReadingKind.FAULT] == []


@pytest.mark.parametrize(
    "tag", [b"Feb 23 16:24:18 gpu-1 app: ", b"<14>1 2025-02-23T16:24:18Z gpu-1 app 7 - - "]
)
def test_what_programs_print_of_faults_is_not_believed(tag: bytes) -> None:
    assert [one.raw for line in FAULTS for one in read(tag + line + b"\n")] == []


@pytest.mark.parametrize(("prefix", "at"), FORMS.items())
def test_the_time_of_each_form_is_read(prefix: bytes, at: float) -> None:
    (reading,) = read(prefix + b"NVRM: Xid (PCI:0000:9b:00): 48, DBE")

    assert round(reading.at, 6) == at
    assert reading.clock is (ReadingClock.BOOT if at < 1_000 else ReadingClock.EPOCH)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (b"", "empty"),
        (b"hello\nworld\n", "no line has the form"),
        (b"gpu-1|23.2.|NVRM: Xid (PCI:0000:9b:00): 79, gone\n", "1 lines have the driver's words"),
        (b"[   12.5] usb 1-1: new device\n", ""),
    ],
)
def test_a_log_of_which_nothing_can_be_read_says_so(log: bytes, words: str) -> None:
    form, parser = LogForm(io.BytesIO(log)), KernelLogParser()
    readings = list(parse(form, parser))
    problem = form.problem(ignored=parser.ignored, readings=len(readings))

    assert words in problem
    assert bool(words) is bool(problem)
