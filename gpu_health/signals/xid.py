"""What the text behind a number of an Xid says; the number decides how it is read."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpu_health.signals import nvlink4, nvlink5

RECOVERY_ACTION = "gpu.recovery_action"
RECOVERY_ACTIONS: Mapping[int, str] = {
    0: "none",
    1: "GPU reset",
    2: "node reboot",
    3: "drain P2P",
    4: "drain and reset",
    5: "recover IMEX domain",
    6: "bus reset",
    7: "system reboot",
}
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (field 230), DCGM field 1523, Xid 154; from driver r570 on."""
NVLINK5 = range(144, 151)
NVLINK5_UNITS: Mapping[int, str] = {
    144: "saw",
    145: "rlw",
    146: "tlw",
    147: "trex",
    148: "nvlpw_ctrl",
    149: "netir",
    150: "mse",
}

UNREAD = "unread.xid"
"""A line of an Xid of which not even the number could be read. No rule may act on it."""
UNDECODED = "undecoded"
"""The bucket of an Xid 144 to 150 whose text could not be read."""
OF_APPLICATIONS = frozenset(
    {"xid.8", "xid.11", "xid.13", "xid.25", "xid.31", "xid.32", "xid.43", "xid.69", "xid.80"}
)
"""Faults that an application can cause by itself (CHECK_APP/CUDA, WORKFLOW_XID_13 and _31 of the catalog):
the same application again says nothing about the GPU."""
LONGEST_NAME = 64
"""Of a process: 15 bytes, of which the log may write each as `\\x1b`."""

_PID = re.compile(r"pid=(['\"]?)(\d{1,10}|<unknown>)\1, name=")
_END_OF_NAME = re.compile(r", ?|$")
_CAUSED = re.compile(
    r"(?:caused by|due to)(?: an?| the)? previous (?:xid|error)s?(?: (\d{1,4}))?", re.IGNORECASE
)
_SM = re.compile(r"GPC (\d{1,3}), TPC (\d{1,3})(?:, SM (\d{1,3}))?")
_MMU = re.compile(r"ENGINE (\w{1,32})|(GPC\d{1,3}) ")
_NVLINK = re.compile(r"link (\d{1,3}) ?\(((?:0x[0-9a-fA-F]{1,16}(?:, )?){1,8})\)")
_NVLINK5 = re.compile(
    r"(\w{1,48})\s+(Fatal|Non-?fatal)\s+(?:XC(\d{1,3})\s+)?(?:i(\d{1,3})\s+)?Link\s+(-?\d{1,3})\s+"
    r"\((0x[0-9a-fA-F]{1,8}) (0x[0-9a-fA-F]{1,8})",
    re.IGNORECASE,
)
_RECOVERY = re.compile(r"recovery action changed from 0x([0-9a-fA-F]{1,2}) .{0,60}? to 0x([0-9a-fA-F]{1,2})")
_RPC = re.compile(r"Expected function (\d{1,5}) \((\w{1,64})\)")


@dataclass(frozen=True, slots=True)
class XidText:
    fault: str
    value: float | None = None
    details: Mapping[str, str] = field(default_factory=dict)


def read(number: int, text: str) -> XidText:
    """Never raises. An Xid 154 that says no action is read as `xid.154`.

    A process may have a comma in its name: of the places where the name may end, it is the first behind which
    the text is one that is known; else the first.
    """
    found = [_read(number, more, rest) for more, rest in _processes(text)]
    return next((one for one in found if _is_decoded(one)), found[0])


def _processes(text: str) -> list[tuple[dict[str, str], str]]:
    """Each way in which pid and name may be told from the text behind them."""
    found = _PID.match(text)
    if found is None:
        return [({}, text)]
    pid = found[2] if found[2].isdigit() else ""
    name_and_text = text[found.end() :]
    ends = [end for end in _END_OF_NAME.finditer(name_and_text) if end.start() <= LONGEST_NAME]
    return [
        ({"pid": pid, "process": name_and_text[: end.start()].strip("'\"")}, name_and_text[end.end() :])
        for end in ends
    ] or [({"pid": pid}, name_and_text)]


def _read(number: int, more: dict[str, str], text: str) -> XidText:
    if number == 154 and (changed := _RECOVERY.search(text)):
        action = int(changed[2], 16)
        before = str(int(changed[1], 16))
        return XidText(RECOVERY_ACTION, float(action), more | {"action": str(action), "before": before})
    reader = _READERS.get(number)
    if reader is not None:
        more |= reader(text)
    elif number in NVLINK5:
        more |= _nvlink5(number, text)
    if caused := _CAUSED.search(text):
        more["caused_by"] = f"xid.{caused[1]}" if caused[1] else "previous"
    return XidText(f"xid.{number}", None, more | {"text": text[:400]})


def _is_decoded(read: XidText) -> bool:
    return read.value is not None or read.details.get("bucket", UNDECODED) != UNDECODED


def _graphics(text: str) -> dict[str, str]:
    found = _SM.search(text)
    return {"gpc": found[1], "tpc": found[2]} if found else {}


def _mmu(text: str) -> dict[str, str]:
    found = _MMU.search(text)
    return {"engine": found[1] or found[2]} if found else {}


def _nvlink(text: str) -> dict[str, str]:
    found = _NVLINK.search(text)
    if found is None:
        return {}
    registers = [int(one, 16) for one in found[2].split(", ")]
    return {"link": found[1], "registers": found[2], "bucket": nvlink4.bucket(registers)}


def _nvlink5(number: int, text: str) -> dict[str, str]:
    found = _NVLINK5.match(text)
    if found is None:
        return {"unit": NVLINK5_UNITS[number], "bucket": UNDECODED}
    return {
        "unit": NVLINK5_UNITS[number],
        "event": found[1],
        "severity": "fatal" if found[2].lower() == "fatal" else "nonfatal",
        "link": str(int(found[5])),
        "intrinfo": found[6].lower(),
        "error_status": found[7].lower(),
        "sub_code": str(nvlink5.sub_code_of(int(found[6], 16))),
        "bucket": nvlink5.bucket(number, found[1], int(found[6], 16), int(found[7], 16)),
    }


def _rpc(text: str) -> dict[str, str]:
    found = _RPC.search(text)
    return {"function": found[2]} if found else {}


_READERS: Mapping[int, Callable[[str], dict[str, str]]] = {13: _graphics, 31: _mmu, 74: _nvlink, 119: _rpc}
