"""Faults of a machine beside its GPUs, as the kernel's own drivers write them: PCIe, memory, disks, networks.

A line is searched for a word first; then its message must begin as the driver writes it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_BUS = rb"(?P<bus>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"


@dataclass(frozen=True, slots=True)
class HostFault:
    fault: str
    details: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _HostLineForm:
    needle: bytes
    fault: str
    message: re.Pattern[bytes]


_FILE_SYSTEM = rb"(?:EXT[234]-fs|XFS|BTRFS|F2FS-fs|FAT-fs|JFS|NTFS3)\b"
_AER = rb"\S{1,40} " + _BUS + rb": (?:AER: )?PCIe Bus Error: severity="
_MCE = rb"(?:mce: |\{\d{1,9}\})?\[Hardware Error\]: "
_MLX5 = (
    rb"TX timeout detected|health compromised|Fatal error \d|Health issue observed|insufficient power"
    rb"|module event\[error\]|Cable error|assert_var\[0\]|timeout\. Will cause a leak|internal state error"
)
_FORMS = tuple(
    _HostLineForm(needle, fault, re.compile(message))
    for needle, fault, message in (
        (
            *(b"emounting filesystem read-only", "disk.read_only"),
            _FILE_SYSTEM + rb".{0,80}?\((?:device )?(?P<device>[a-z0-9/-]{2,32})\)",
        ),
        (b"emounting filesystem read-only", "disk.read_only", _FILE_SYSTEM),
        (b"controller is down", "disk.nvme", rb"nvme (?P<device>nvme\d{1,3}): controller is down"),
        (b"timeout, ", "disk.nvme_timeout", rb"nvme (?P<device>nvme\d{1,3}): I/O .{0,120}?timeout, "),
        (b"PCIe Bus Error", "pcie.aer_uncorrected", _AER + rb"Uncorrect"),
        (b"PCIe Bus Error", "pcie.aer_corrected", _AER + rb"Correct"),
        (b"Machine Check", "cpu.machine_check", _MCE + rb"CPU (?P<cpu>\d{1,5}): Machine Check"),
        (b"Machine check events logged", "cpu.machine_check", _MCE + rb"Machine check events logged"),
        (b"error from APEI", "cpu.machine_check", _MCE + rb"Hardware error from APEI"),
        (b" UE ", "memory.edac_uncorrected", rb"EDAC (?P<device>MC\d{1,3}): \d{1,9} UE "),
        (b" CE ", "memory.edac_corrected", rb"EDAC (?P<device>MC\d{1,3}): \d{1,9} CE "),
        (
            *(b"soft lockup", "kernel.lockup"),
            rb"(?:NMI )?(?:watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d{1,5}) stuck",
        ),
        (
            *(b"hard LOCKUP", "kernel.lockup"),
            rb"(?:NMI )?watchdog: Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{1,5})",
        ),
        (b"mlx5_core ", "net.mlx5", rb"mlx5_core " + _BUS + rb"(?: \S{1,32})?: .{0,160}?(?:" + _MLX5 + rb")"),
    )
)
NEEDLES = tuple({form.needle: None for form in _FORMS})


def read(message: bytes) -> HostFault | None:
    """The fault that a kernel's line (without its time) tells of; None: it tells of none."""
    for form in _FORMS:
        if form.needle in message and (found := form.message.match(message)):
            told = {
                name: value.decode(errors="replace") for name, value in found.groupdict().items() if value
            }
            return HostFault(form.fault, told)
    return None
