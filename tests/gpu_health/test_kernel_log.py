"""What is read out of kernel logs: every form that drivers and tools write, in whatever pieces it comes."""

import io
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_health.signals.kernel_log import MAX_LINE, KernelLogParser, parse
from gpu_health.signals.reading import BadReading, GpuReading, ReadingClock, ReadingKind, bus_id

UUID = "GPU-509665ad-b600-ac93-3616-d754b23d636d"
GSP = (
    b"[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout "
    b"after 6s of waiting for RPC response from GPU4 GSP! Expected function 103 (GSP_RM_ALLOC) (0x2081).\n"
)
DROPPED = (
    b"[ 1843.308145] NVRM: The NVIDIA GPU 0000:%b:00.0\n",
    b"[ 1843.308146] NVRM: (PCI ID: 10de:26b5) installed in this system has\n",
    b"[ 1843.308147] NVRM: fallen off the bus and is not responding to commands.\n",
)


def read(log: bytes, **known: object) -> list[GpuReading]:
    return list(parse(io.BytesIO(log), KernelLogParser(**known)))  # type: ignore[arg-type]


def only(log: bytes, **known: object) -> GpuReading:
    (reading,) = read(log, **known)
    return reading


def test_an_xid_tells_its_gpu_its_time_and_who_ran_into_it() -> None:
    reading = only(GSP)

    assert (reading.fault, reading.gpu_bus_id) == ("xid.119", "0000:9b:00")
    assert (reading.at, reading.clock) == (1740327858.0, ReadingClock.EPOCH)
    assert reading.detail("process") == "nvidia-smi"
    assert reading.detail("pid") == "2024380"
    assert reading.detail("function") == "GSP_RM_ALLOC"


@pytest.mark.parametrize(
    ("line", "fault", "gpu"),
    [
        (b"NVRM: Xid (0000:03:00): 14, Channel 00000001", "xid.14", "0000:03:00"),
        (b"NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has", "xid.79", "0000:05:00"),
        (b"NVRM: Xid (PCI:0000:41:00 GPU-I:05): 43, pid=7, name=python, Ch 00000008", "xid.43", "0000:41:00"),
        (b"NVRM: Xid (PCI:0018:01:00.0): 31", "xid.31", "0018:01:00"),
        (b"NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "xid.79", "0000:18:00"),
        (b"nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 12028, Non-fatal, Link 61 egress", "sxid.nonfatal", ""),
        (b"NVRM: API mismatch: the client has the version 550.1, but\n", "driver.mismatch", ""),
        (b"EXT4-fs (sda1): Remounting filesystem read-only", "disk.read_only", ""),
        (b"nvme nvme0: controller is down; will reset: CSTS=0x3", "disk.nvme", ""),
    ],
)
def test_every_form_of_a_fault_is_known(line: bytes, fault: str, gpu: str) -> None:
    reading = only(b"[   12.5] " + line)

    assert (reading.fault, reading.gpu_bus_id, reading.kind) == (fault, gpu, ReadingKind.FAULT)


@pytest.mark.parametrize(
    ("prefix", "at", "clock"),
    [
        (b"", 0.0, ReadingClock.NONE),
        (b"[  206.764307] ", 206.764307, ReadingClock.BOOT),
        (b"[  206.764307][   T12] ", 206.764307, ReadingClock.BOOT),
        (b"6,3964,206764307,-;", 206.764307, ReadingClock.BOOT),
        (b"kern  :warn  : [  206.764307] ", 206.764307, ReadingClock.BOOT),
        (b"kern  :warn  : 2025-01-21T04:41:44,285060+00:00 ", 1737434504.28506, ReadingClock.EPOCH),
        (b"2025-02-23T16:24:18.5+01:00 gpu-1 kernel: [  206.764307] ", 1740324258.5, ReadingClock.EPOCH),
        (b"2025-02-23T16:24:18+0100 gpu-1 kernel: ", 1740324258.0, ReadingClock.EPOCH),
        (b"[Sun Feb 23 16:24:18 2025] ", 1740327858.0, ReadingClock.EPOCH),
        (b"Feb 23 16:24:18 gpu-1 kernel: ", 1740327858.0, ReadingClock.EPOCH),
        (b"1740327858.250000 gpu-1 kernel: ", 1740327858.25, ReadingClock.EPOCH),
    ],
)
def test_the_time_is_read_of_whatever_tool_wrote_it(prefix: bytes, at: float, clock: ReadingClock) -> None:
    reading = only(prefix + b"NVRM: Xid (PCI:0000:9b:00): 48, pid=1, name=x, DBE", year=2025)

    assert (round(reading.at, 6), reading.clock) == (round(at, 6), clock)


@pytest.mark.parametrize(
    "prefix",
    [
        b"Feb 23 16:24:18 gpu-1 logger: ",
        b"2025-02-23T16:24:18+01:00 gpu-1 user[4711]: ",
        b"14,3964,206764307,-;",
        b"user  :notice: [  206.7] ",
        b"[  206.7] audit: comm=",
    ],
)
def test_what_no_kernel_said_is_not_believed(prefix: bytes) -> None:
    parser = KernelLogParser()

    assert parser.feed(prefix + b"NVRM: Xid (PCI:0000:9b:00): 79, forged\n") == []
    assert parser.ignored == 1


def test_a_gpu_is_called_by_its_uuid_once_the_log_has_named_it() -> None:
    identity, fault = read(b"NVRM: GPU at PCI:0000:9b:00: " + UUID.encode() + b"\n" + GSP)

    assert (identity.fault, identity.kind) == ("gpu.identity", ReadingKind.FACT)
    assert fault.gpu_uuid == UUID


def test_nvlink5_errors_tell_their_sub_code() -> None:
    reading = only(
        b"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 0x0)"
    )

    assert reading.fault == "xid.149"
    assert dict(reading.details) | {"text": ""} == {
        "unit": "netir",
        "event": "NETIR_LINK_EVT",
        "severity": "fatal",
        "link": "1",
        "intrinfo": "0x021425c6",
        "error_status": "0x00000000",
        "sub_code": str((0x021425C6 >> 20) & 0x3F),
        "bucket": "reset_gpu",
        "text": "",
    }


NETIR = "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 0x00000000)"
NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), min_size=1, max_size=15
).filter(lambda name: len(name.encode()) <= 15)


@given(NAMES, st.sampled_from(["{}", "'{}'", '"{}"']), st.sampled_from(["4711", "<unknown>"]))
@example("my,app", "{}", "4711")
@example("NVRM: Xid", "{}", "4711")
@example("a, ), b", "{}", "4711")
def test_a_process_may_have_any_name(name: str, quotes: str, pid: str) -> None:
    head = f"[  1.5] NVRM: Xid (PCI:0000:3b:00): 149, pid={quotes.format(pid)}, name={name}, "
    fault = only(f"{head}{NETIR}".encode())

    assert (fault.fault, fault.detail("bucket"), fault.detail("severity")) == (
        "xid.149",
        "reset_gpu",
        "fatal",
    )
    assert fault.detail("pid") == ("4711" if pid == "4711" else "")


def test_slices_of_a_gpu_are_named() -> None:
    reading = only(
        b"[ 1.5] NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 31, pid=7, name=my,app, Ch 00000008"
    )

    assert (reading.fault, reading.gpu_bus_id) == ("xid.31", "0000:3b:00")
    assert (reading.detail("mig_instance"), reading.detail("mig_compute")) == ("01", "02")
    assert reading.detail("process") == "my"


@pytest.mark.parametrize(
    ("line", "fault", "gpu"),
    [
        (b"NVRM: Xid (PCI:0000:3b:00 GPU-X:7): 48, DBE", "unread.xid", "0000:3b:00"),
        (b"NVRM: Xid (GPU3): 79, GPU has fallen off", "unread.xid", ""),
        (b"NVRM: GPU0 Xid 48: DBE", "unread.xid", ""),
        (b"NVRM: Xid (PCI:0000:3b:00): , pid=7", "unread.xid", "0000:3b:00"),
        (b"nvidia-nvswitch1: SXid (NVS1): 20034, Fatal, Link 30", "unread.sxid", ""),
        (b"nvidia-nvswitch1: port 3: SXid 20034", "unread.sxid", ""),
        (b"nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 10004, SOE Watchdog error", "sxid.unrated", ""),
        (b"nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 10003, Fatal, SOE EXTERR", "sxid.fatal", ""),
    ],
)
def test_a_line_that_names_a_fault_is_never_passed_over(line: bytes, fault: str, gpu: str) -> None:
    reading = only(b"[   12.5] " + line)

    assert (reading.fault, reading.gpu_bus_id, reading.kind) == (fault, gpu, ReadingKind.FAULT)


@given(st.binary(max_size=80).filter(lambda noise: b"\n" not in noise))
def test_whatever_stands_behind_an_xid_something_is_seen(noise: bytes) -> None:
    assert read(b"[ 1.5] NVRM: Xid (" + noise)


def test_what_follows_a_fault_of_a_switch_is_no_second_one() -> None:
    log = b"".join(
        b"[ 1.%d] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, %b\n" % (number, text)
        for number, text in enumerate(
            (
                b"Non-fatal, Link 46 MC TS crumbstore MCTO (First)",
                b"Severity 0 Engine instance 46",
                b"Data {0x14}",
            )
        )
    )

    assert [one.fault for one in read(log)] == ["sxid.nonfatal"]


def test_the_drivers_recovery_action_is_a_reading_of_its_own() -> None:
    reading = only(
        b"NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain)"
    )

    assert (reading.fault, reading.value) == ("gpu.recovery_action", 4.0)
    assert (reading.detail("action"), reading.detail("before")) == ("4", "0")


def test_a_driver_that_is_loaded_tells_its_version() -> None:
    reading = only(b"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (x)")

    assert (reading.fault, reading.kind) == ("driver.version", ReadingKind.FACT)
    assert reading.detail("version") == "570.86.15"


def test_reports_of_two_gpus_over_several_lines_interleave() -> None:
    opened = [DROPPED[0] % bus for bus in (b"b3", b"b4")]
    log = b"".join([*opened, DROPPED[1], GSP, DROPPED[1], DROPPED[2], DROPPED[2]])

    assert [(one.fault, one.gpu_bus_id) for one in read(log)] == [
        ("xid.119", "0000:9b:00"),
        ("xid.79", "0000:b3:00"),
        ("xid.79", "0000:b4:00"),
    ]


def test_a_report_in_one_record_of_kmsg_is_whole() -> None:
    record = b"\\x0a".join(line.split(b"] ")[1].strip() for line in DROPPED) % b"b3"
    reading = only(b"4,77,1843308145,-;" + record + b"\n", boot="b00t")

    assert (reading.fault, reading.gpu_bus_id, reading.origin) == ("xid.79", "0000:b3:00", "b00t/77")


def test_a_card_that_is_not_supported_has_not_dropped() -> None:
    unsupported = b"[ 1.0] NVRM: installed in this system is not supported by the 570.1 driver.\n"

    assert read(DROPPED[0] % b"b3" + unsupported + DROPPED[2]) == []


def test_a_line_of_two_that_wrote_at_once_tells_both() -> None:
    torn = GSP.strip() + b"NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.\n"

    assert [one.fault for one in read(torn)] == ["xid.119", "xid.79"]


def test_a_line_without_an_end_is_held_in_bounded_memory() -> None:
    parser = KernelLogParser()
    for _ in range(200):
        assert parser.feed(b"x" * 100_000) == []
    assert len(parser._tail) <= MAX_LINE
    assert [one.fault for one in parser.feed(b"\n" + GSP)] == ["xid.119"]


LINES = st.one_of(
    st.sampled_from([GSP, *(part % b"b3" if b"%b" in part else part for part in DROPPED)]),
    st.just(b"nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"),
    st.binary(max_size=60).map(lambda line: line + b"\n"),
    st.binary(max_size=60).map(lambda line: b"NVRM: Xid (PCI:0000:9b:00): " + line),
    st.just(b"y" * (MAX_LINE - 20)),
)


@given(st.lists(LINES, max_size=20), st.integers(0, 2**32))
def test_readings_do_not_depend_on_how_the_bytes_were_cut(lines: list[bytes], seed: int) -> None:
    log, cuts = b"".join(lines), random.Random(seed)
    parser, found, at = KernelLogParser(), [], 0
    while at < len(log):
        size = cuts.choice((1, 7, 100, 10_000))
        found += parser.feed(log[at : at + size])
        at += size

    assert found + parser.close() == read(log)


@given(st.binary(max_size=400))
def test_nothing_in_a_log_raises_and_every_reading_survives_json(noise: bytes) -> None:
    for log in (noise, b"NVRM: " + noise, b"NVRM: Xid (PCI:0000:9b:00): 149, " + noise, b"SXid (" + noise):
        for reading in read(log):
            assert GpuReading.from_dict(reading.to_dict()) == reading


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"fault": "Xid 79"}, "fault must be"),
        ({"source": "hearsay"}, "source must be one of"),
        ({"at": float("nan")}, "at must be a finite number"),
        ({"at": True}, "at must be a number"),
        ({"gpu_bus_id": "9B:00"}, "gpu_bus_id must be"),
        ({"details": {"text": 3}}, "details.text must be text"),
        ({"raw": "x" * 2_001}, "raw must be text"),
    ],
)
def test_what_is_no_reading_is_refused_by_name(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(BadReading, match=words):
        GpuReading.from_dict({"source": "nvml", "fault": "ecc.double_bit"} | wrong)


def test_a_bus_is_written_in_one_way() -> None:
    assert {bus_id(text) for text in ("PCI:0000:9B:00", "00000000:9b:00.0", "0000:9b:00")} == {"0000:9b:00"}
    assert bus_id("GPU-1") == ""
