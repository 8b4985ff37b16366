"""Readings out of a kernel log, in whatever pieces it comes: Xid, SXid, bus drops, recovery actions, disks.

`KernelLogParser` takes bytes and holds no more than one line, a small table of GPUs and the reports that are
still open. Most lines are none of ours, so whole chunks are searched for what ours contain, and only those
lines are read. Formats: NVIDIA "Xid Errors" (r580) and "Fabric Manager User Guide"; lines that the driver
writes without an Xid are in `osinit.c` of its open kernel module.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from gpu_health.signals import host_lines, xid
from gpu_health.signals.log_times import UNKNOWN, Stamp, stamp_of
from gpu_health.signals.reading import NOTHING, GpuReading, ReadingKind, ReadingSource, bus_id, clean, details

CHUNK = 1 << 16
"""What stays near the processor while it is searched."""
MAX_LINE = 8_192
MAX_GPUS = 256
MAX_OPEN = 32
OPEN_FOR_LINES = 64
"""How many lines of the driver may stand between the first and the last of one report."""

_NVRM = b"NVRM: "
_SXID = b"SXid"
_NEEDLES = (_NVRM, _SXID, *host_lines.NEEDLES)

_TIME = (
    rb"(?:(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
    rb"(?:[.,]\d{1,9})?(?: ?Z|[+-]\d\d:?\d\d| [A-Z]{3,5})?"
    rb"|(?:[^\s\[\]:,;<]{1,12} )?[^\s\[\]:,;<]{1,16} {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    rb"(?: \d{4})?|\d{9,10}\.\d{1,9}"
    rb"|\[ *\d{1,12}\.\d{1,9} *\](?= [^\s:]{1,128} +kernel: ))"
)
"""Of `dmesg` and of every short form of `journalctl`; months in any language."""
_FROM_KERNEL = re.compile(
    rb"\s*(?:[0-7],\d{1,20},\d{1,20},[^;]{0,40};"
    rb"|<[0-7]>1 \S{1,40} \S{1,128} kernel \S{1,40} \S{1,40} (?:-|\[[^\]]{0,300}\]) "
    rb"(?:\xef\xbb\xbf)?(?:\[[^\]]{1,40}\] ?)?"
    rb"|(?:[0-9a-zA-Z.:_-]{1,64}: )?kern: +[a-z]{1,8}: \[[^\]]{1,40}\]: "
    rb"|(?:kern +:[a-z]+ *: +)?(?:" + _TIME + rb":? +)?(?:(?:[^\s:]{1,128} +)?kernel: +)?"
    rb"(?:<[0-7]>)?(?:\[[^\]]{1,40}\] ?)?(?:\[ *[TC]\d{1,10}\] ?)?)\s*(?:nvidia-nvswitch\d{1,3}: )?"
)
"""Whoever may write to a syslog may write `NVRM: Xid` there: only what the kernel said is believed."""
_XID = re.compile(
    rb"Xid \((?:PCI:)?((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
    rb"(?: GPU-I:(\d{1,3}))?(?: GPU-CI:(\d{1,3}))?\): (\d{1,4})(?![0-9])(?:, ?(.*))?",
    re.DOTALL,
)
"""With MIG the driver names the GPU instance and, where it knows it, the compute instance."""
_NAMES_XID = re.compile(rb"Xid ?[(:0-9]")
_BUS = re.compile(
    rb"(?<![0-9a-fA-F])(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{1,2}:[0-9a-fA-F]{1,2}(?:\.[0-7])?(?![0-9a-fA-F:])"
)
_PROCESS = re.compile(rb"pid=['\"]?[^,]{0,20}, name=[^\n]{0,15}?, ?")
"""Its name is at most 15 bytes: a process may be called `NVRM: `, too."""
_SXID_LINE = re.compile(
    rb"SXid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\): (\d{1,6}), ?"
    rb"(?:(Fatal|Non-?fatal)(?:, ?|(?= ))|(Severity \d|Data \{)|(?=[^ ]))(?:Link (\d{1,3}) ?)?([^\n]{0,400})",
    re.IGNORECASE,
)
"""What follows one of them, `Severity` and `Data`, says no more of how bad it is."""
_IDENTITY = re.compile(rb"GPU at (?:PCI:)?([0-9a-fA-F:]{10,16}(?:\.[0-7])?): (GPU-[0-9a-fA-F-]{36})")
_DROPPED = re.compile(rb"GPU (?:at )?(?:PCI:)?([0-9a-fA-F:]{5,16}(?:\.[0-7])?): GPU has fallen off the bus")
_OPENS = re.compile(rb"The NVIDIA GPU ([0-9a-fA-F:]{10,16}(?:\.[0-7])?)")
_CLOSES = re.compile(rb"fallen off the bus")
_ENDS_OTHERWISE = re.compile(rb"not supported|legacy|RmInit|requires")
_DRIVER = re.compile(
    rb"loading NVIDIA UNIX [^\n]{0,60}?Kernel Module[^\n]{0,20}?  ?(\d{3}\.\d{1,3}(?:\.\d{1,3})?)"
)
_MISMATCH = re.compile(rb"API mismatch: the client has the version (\d[\d.]*)")
_KERNEL_MODULE = re.compile(rb"this kernel module has the version (\d[\d.]*)")
_INIT_FAILED = re.compile(rb"(?:GPU (?P<bus>[0-9a-fA-F:.]{5,16}): )?(?:RmInitAdapter|rm_init_adapter) failed")
_POST_RX = re.compile(rb".{0,120}?[Pp]ost_?RxDet(?:ect)?Link.{0,120}?fail", re.IGNORECASE)
_ESCAPED_NEWLINE = b"\\x0a"
SXID_UNREAD = "unread.sxid"


@dataclass(frozen=True, slots=True)
class _OpenReport:
    opened_at_line: int
    stamp: Stamp
    line: bytes


class KernelLogParser:
    """`feed` it bytes, `close` it at the end: the readings do not depend on how the bytes were cut.

    Never raises, whatever the bytes are. `booted_at` and `year` are those of `stamp_of`, `boot` names this
    start of the machine in `GpuReading.origin`. `ignored` counts lines that look like ours and are no
    kernel's.
    """

    def __init__(
        self, *, node: str = "", booted_at: float | None = None, boot: str = "", year: int | None = None
    ) -> None:
        self._node = node
        self.booted_at = booted_at
        self._boot = boot
        self._year = year
        self._tail = b""
        self._uuids: dict[str, str] = {}
        self._open: dict[str, _OpenReport] = {}
        self._lines = 0
        self.ignored = 0

    def feed(self, chunk: bytes) -> list[GpuReading]:
        """Return the readings of the lines that end in this chunk."""
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            self._tail = (self._tail + chunk)[:MAX_LINE]
            return []
        block = chunk[:cut]
        if self._tail:
            # A line that is too long is cut where it would be cut in one piece.
            first = block.find(b"\n")
            block = (self._tail + block[:first])[:MAX_LINE] + block[first:]
        self._tail = chunk[cut : cut + MAX_LINE]
        return self._read_block(block)

    def close(self) -> list[GpuReading]:
        """Return the readings of a last line without an end."""
        block, self._tail = self._tail, b""
        return self._read_block(block) if block else []

    def _read_block(self, block: bytes) -> list[GpuReading]:
        found: list[GpuReading] = []
        for start, end in _candidates(block):
            self._read_line(block[start:end], found)
        return found

    def _read_line(self, line: bytes, found: list[GpuReading]) -> None:
        at = min((position for needle in _NEEDLES if (position := line.find(needle)) >= 0), default=-1)
        if at < 0:
            return
        if line.startswith((_NVRM, _SXID), at):
            prefix = line[:at]
            from_kernel = _FROM_KERNEL.match(prefix)
            # A switch may say something else before the code.
            if from_kernel is None or (from_kernel.end() < at and b"nvswitch" not in from_kernel[0]):
                self.ignored += 1
                return
            stamp = stamp_of(prefix, booted_at=self.booted_at, year=self._year)
            if line.startswith(_SXID, at):
                self._read_switch(line, at, stamp, found)
            else:
                for message in _messages(line[at:].replace(_ESCAPED_NEWLINE, b" ")):
                    self._read_message(message.rstrip(), line, stamp, found)
            return
        self._read_host(line, found)

    def _read_message(self, message: bytes, line: bytes, stamp: Stamp, found: list[GpuReading]) -> None:
        """Read one message of the driver, without `NVRM: `."""
        self._lines += 1
        if match := _XID.match(message):
            found.append(self._xid(match, line, stamp))
        elif _NAMES_XID.search(message):
            found.append(self._unread(xid.UNREAD, message, line, stamp))
        elif match := _IDENTITY.match(message):
            self._identify(match, line, stamp, found)
        elif match := _DROPPED.match(message):
            found.append(self._dropped(bus_id(match[1].decode()), line, stamp))
        elif match := _OPENS.match(message):
            self._open_report(bus_id(match[1].decode()), message, line, stamp, found)
        elif _CLOSES.search(message):
            if closed := self._close_report():
                gpu, report = closed
                # A log that indents what goes on gives its time to the first line alone.
                stamp = report.stamp if stamp is UNKNOWN else stamp
                found.append(self._dropped(gpu, report.line + b" | " + line.strip(), stamp))
        elif match := _DRIVER.match(message):
            version = match[1].decode()
            found.append(
                self._reading("driver.version", line, stamp, kind=ReadingKind.FACT, more={"version": version})
            )
        elif match := _MISMATCH.search(message):
            module = _KERNEL_MODULE.search(message)
            versions = {"client": match[1].decode(), "module": module[1].decode() if module else ""}
            found.append(self._reading("driver.mismatch", line, stamp, more=versions))
        elif match := _INIT_FAILED.match(message):
            gpu = bus_id((match["bus"] or b"").decode())
            found.append(self._reading("driver.init_failed", line, stamp, gpu=gpu))
        elif _POST_RX.match(message):
            found.append(self._reading("nvlink.detection", line, stamp))
        elif self._open and _ENDS_OTHERWISE.search(message):
            self._close_report()

    def _xid(self, match: re.Match[bytes], line: bytes, stamp: Stamp) -> GpuReading:
        gpu, instance = bus_id(match[1].decode()), (match[2] or b"").decode()
        read = xid.read(int(match[4]), clean((match[5] or b"").decode(errors="replace"), MAX_LINE))
        more = {**read.details, "mig_instance": instance, "mig_compute": (match[3] or b"").decode()}
        return self._reading(read.fault, line, stamp, gpu=gpu, value=read.value, more=more)

    def _unread(self, fault: str, message: bytes, line: bytes, stamp: Stamp) -> GpuReading:
        """A line of the driver that names a fault and could not be read."""
        bus = _BUS.search(message) if fault == xid.UNREAD else None
        return self._reading(fault, line, stamp, gpu=bus_id(bus[0].decode()) if bus else "")

    def _identify(self, match: re.Match[bytes], line: bytes, stamp: Stamp, found: list[GpuReading]) -> None:
        gpu, uuid = bus_id(match[1].decode()), match[2].decode()
        if not gpu or (gpu not in self._uuids and len(self._uuids) >= MAX_GPUS):
            return
        self._uuids[gpu] = uuid
        found.append(self._reading("gpu.identity", line, stamp, gpu=gpu, kind=ReadingKind.FACT))

    def _dropped(self, gpu: str, line: bytes, stamp: Stamp) -> GpuReading:
        return self._reading("xid.79", line, stamp, gpu=gpu, more={"form": "without_xid"})

    def _open_report(
        self, gpu: str, message: bytes, line: bytes, stamp: Stamp, found: list[GpuReading]
    ) -> None:
        """`The NVIDIA GPU ...`, which goes on in the next lines of the driver or stands in one."""
        if not gpu:
            return
        if _CLOSES.search(message):
            found.append(self._dropped(gpu, line, stamp))
        elif not _ENDS_OTHERWISE.search(message):
            self._open.pop(gpu, None)
            self._open[gpu] = _OpenReport(self._lines, stamp, line)
            if len(self._open) > MAX_OPEN:
                del self._open[next(iter(self._open))]

    def _close_report(self) -> "tuple[str, _OpenReport] | None":
        """The GPU whose report has been open longest: reports of several GPUs interleave, in order."""
        for gpu, report in list(self._open.items()):
            del self._open[gpu]
            if self._lines - report.opened_at_line <= OPEN_FOR_LINES:
                return gpu, report
        return None

    def _read_switch(self, line: bytes, at: int, stamp: Stamp, found: list[GpuReading]) -> None:
        matches = list(_SXID_LINE.finditer(line, at))
        for match in matches:
            if match[4]:
                continue
            severity = (match[3] or b"unrated").decode().lower().replace("-", "")
            more = {
                "switch": bus_id(match[1].decode()),
                "code": match[2].decode(),
                "link": (match[5] or b"").decode(),
                "text": match[6].decode(errors="replace"),
            }
            found.append(self._reading(f"sxid.{severity}", line, stamp, more=more))
        if not matches:
            found.append(self._unread(SXID_UNREAD, line, line, stamp))

    def _read_host(self, line: bytes, found: list[GpuReading]) -> None:
        """Read another driver's message, only from a kernel line and only where its message begins."""
        prefix = _prefix_of(line)
        fault = host_lines.read(line[len(prefix) :])
        if fault is None:
            return
        stamp = stamp_of(prefix, booted_at=self.booted_at, year=self._year) if prefix else UNKNOWN
        found.append(self._reading(fault.fault, line, stamp, more=fault.details))

    def _reading(
        self,
        fault: str,
        line: bytes,
        stamp: Stamp,
        *,
        gpu: str = "",
        kind: ReadingKind = ReadingKind.FAULT,
        value: float | None = None,
        more: Mapping[str, str] = NOTHING,
    ) -> GpuReading:
        return GpuReading(
            source=ReadingSource.KERNEL_LOG,
            fault=fault,
            kind=kind,
            at=stamp.at,
            clock=stamp.clock,
            node=self._node,
            gpu_bus_id=gpu,
            gpu_uuid=self._uuids.get(gpu, ""),
            value=value,
            details=details(more),
            raw=clean(line.decode(errors="replace")),
            origin=f"{self._boot}/{stamp.sequence}" if self._boot and stamp.sequence else "",
            boot=self._boot,
        )


def _prefix_of(line: bytes) -> bytes:
    """Time, host and tag of a line that is the kernel's; empty: it has none, or is another's."""
    found = _FROM_KERNEL.match(line)
    return found[0] if found else b""


def knows_form_of(line: bytes) -> bool:
    """Whether time and tag of the line are those of a kernel log."""
    return bool(_prefix_of(line).strip())


def _messages(text: bytes) -> Iterator[bytes]:
    """Yield the driver's messages in one line, without `NVRM: `: two that write at once may share a line."""
    while text:
        start = len(_NVRM)
        process = _PROCESS.search(text)
        # A process is no end of a message, whatever its name.
        end = text.find(_NVRM, start)
        if process is not None and 0 <= process.start() < end < process.end():
            end = text.find(_NVRM, process.end())
        end = len(text) if end < 0 else end
        yield text[start:end]
        text = text[end:]


def _candidates(block: bytes) -> Iterable[tuple[int, int]]:
    """Return begin and end of each line that may be ours, in order."""
    lines: dict[int, int] = {}
    for needle in _NEEDLES:
        position = block.find(needle)
        while position >= 0:
            start = block.rfind(b"\n", 0, position) + 1
            end = block.find(b"\n", position)
            end = len(block) if end < 0 else end
            if position + len(needle) <= start + MAX_LINE:
                lines[start] = min(end, start + MAX_LINE)
            position = block.find(needle, end)
    return sorted(lines.items())


class ByteStream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def parse(stream: ByteStream, parser: KernelLogParser) -> Iterator[GpuReading]:
    """All readings of a stream, in constant memory."""
    while chunk := stream.read(CHUNK):
        yield from parser.feed(chunk)
    yield from parser.close()
