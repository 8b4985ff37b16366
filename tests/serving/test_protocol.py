"""Heartbeats and commands survive the trip, and faulty ones are refused by name."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.fields import ProtocolError
from serving.protocol import (
    MAX_WORKERS_PER_REPORT,
    Counters,
    Device,
    Heartbeat,
    Latency,
    NodeReport,
    WorkerState,
    decode_heartbeat,
    validated_heartbeat,
)
from serving.worker_command import WorkerCommand

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
abilities = st.lists(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,10}", fullmatch=True), max_size=4).map(tuple)
labels = st.builds("{}:{}".format, names, names)
counts = st.integers(0, 2**53)
positive = st.floats(0, 1e12, allow_nan=False)
latencies = st.builds(Latency, p50_ms=positive, p95_ms=positive, count=counts)
heartbeats = st.builds(
    Heartbeat,
    worker=names,
    deployment=names,
    service=names,
    version=labels,
    engine=names,
    device=st.text(max_size=20),
    machine=st.text(max_size=20),
    address=st.text(max_size=20),
    port=st.integers(1, 65_535),
    pid=st.integers(1, 2**22),
    state=st.sampled_from(WorkerState),
    reason=st.text(max_size=50),
    busy=st.floats(0, 1),
    in_flight=counts,
    slots=st.integers(1, 4096),
    queue_depth=counts,
    abilities=abilities,
    counters=st.builds(Counters, requests=counts, errors=counts, completion_tokens=counts),
    ttft=st.none() | latencies,
    tpot=st.none() | latencies,
    started_at=positive,
    at=positive,
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-99, 99)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
commands = st.builds(
    WorkerCommand,
    model_dir=st.text("abc/ -é=", min_size=1).map(Path).filter(lambda path: str(path) != "--"),
    name=names,
    deployment=names,
    service=names,
    version_label=labels,
    engine=st.sampled_from(["transformers", "vllm", "echo"]),
    port=st.integers(0, 65_535),
    slots=st.integers(1, 64),
    settings=st.dictionaries(st.text(), json_values, max_size=3),
    abilities=abilities,
    settle_seconds=st.floats(0, 100),
    exit_with_parent=st.booleans(),
    # Before Python 3.13, argparse swallows the value of `--x=--`.
    machine=st.text("ab/-= ", max_size=10).filter(lambda name: name != "--"),
)
BEAT = Heartbeat(
    worker="chat-1-0",
    deployment="7",
    service="chat",
    version="chat:v1",
    engine="echo",
    device="cpu",
    machine="host",
    address="127.0.0.1",
    port=21000,
    pid=4242,
    state=WorkerState.READY,
    started_at=1.0,
    at=2.0,
)


@given(heartbeats)
def test_a_heartbeat_survives_encoding(beat: Heartbeat) -> None:
    assert decode_heartbeat(beat.encode()) == beat


@given(heartbeats, heartbeats)
def test_a_heartbeat_is_the_same_whichever_came_before(beat: Heartbeat, before: Heartbeat) -> None:
    held = before.to_dict() | {"turn": 7}
    del held["adapters"]  # It was held by an older release.
    assert validated_heartbeat(beat.to_dict(), held) == beat.to_dict() | {"turn": 7}


def test_a_field_that_a_worker_leaves_out_is_not_that_of_the_heartbeat_before() -> None:
    document = BEAT.to_dict()
    del document["reason"]
    assert validated_heartbeat(document, BEAT.to_dict() | {"reason": "It loads."})["reason"] == ""
    del document["slots"]
    with pytest.raises(ProtocolError, match="slots is missing"):
        validated_heartbeat(document, BEAT.to_dict())


def test_a_key_of_a_newer_worker_is_ignored() -> None:
    assert Heartbeat.from_dict(BEAT.to_dict() | {"gpu_temperature": 61}) == BEAT


def test_a_counter_of_a_newer_worker_is_ignored() -> None:
    document = BEAT.to_dict()
    document["counters"] = {"requests": 3, "cache_hits": 9}
    assert Heartbeat.from_dict(document) == replace(BEAT, counters=Counters(requests=3))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("busy", 1.2, "busy must be from 0 to 1"),
        ("busy", True, "busy must be a number"),
        ("busy", "0.5", "busy must be a number"),
        ("slots", 0, "slots must be from 1"),
        ("slots", 2.0, "slots must be a whole number"),
        ("port", 70_000, "port must be from 1 to 65535"),
        ("state", "asleep", "state must be one of starting, ready, draining, failed"),
        ("version", "chat", "version must match"),
        ("worker", "../etc", "worker must match"),
        ("reason", "x" * 3_000, "reason must have at most 2000"),
        ("abilities", ["chat", 1], "abilities must be at most 64 names"),
        ("counters", {"requests": -1}, "requests must be from 0"),
        ("ttft", {"p50_ms": 1.0}, "p95_ms is missing"),
        ("at", None, "at must be a number"),
    ],
)
def test_a_faulty_field_refuses_the_heartbeat_and_is_named(key: str, value: object, message: str) -> None:
    with pytest.raises(ProtocolError) as refusal:
        decode_heartbeat(json.dumps(BEAT.to_dict() | {key: value}))
    assert str(refusal.value).startswith(message)
    with pytest.raises(ProtocolError) as later:
        validated_heartbeat(BEAT.to_dict() | {key: value}, BEAT.to_dict())
    assert str(later.value) == str(refusal.value)


def test_a_missing_field_is_named() -> None:
    document = BEAT.to_dict()
    del document["slots"]
    with pytest.raises(ProtocolError, match="slots is missing"):
        Heartbeat.from_dict(document)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"worker": NaN}', b"\xff"])
def test_what_is_no_heartbeat_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_heartbeat(body)


REPORT = {"node": "box-1", "session": "0123456789abcdef", "sequence": 1, "workers": [], "devices": []}


def test_a_report_survives_encoding() -> None:
    device = Device(uuid="GPU-1", readings={"temperature_celsius": 61.0})
    report = NodeReport(
        node="box-1",
        session="0123456789abcdef",
        sequence=7,
        workers=[BEAT.to_dict()],
        devices=[device.to_dict()],
    )
    read = NodeReport.from_dict(json.loads(report.encode()))
    assert read == report
    assert (Heartbeat.from_dict(read.workers[0]), Device.from_dict(read.devices[0])) == (BEAT, device)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node": ""}, "node must match"),
        ({"node": None}, "node must be text"),
        ({"session": "short"}, "session must match"),
        ({"sequence": 0}, "sequence must be from 1"),
        ({"sequence": 1.5}, "sequence must be a whole number"),
        ({"workers": {}}, "workers must be a list of objects"),
        (
            {"workers": [BEAT.to_dict()] * (MAX_WORKERS_PER_REPORT + 1)},
            "workers must have at most 500 entries",
        ),
        ({"devices": [{}] * 129}, "devices must have at most 128 entries"),
    ],
)
def test_a_faulty_report_is_refused_by_the_field(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        NodeReport.from_dict(REPORT | changes)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ({"readings": {}}, "uuid is missing"),
        ({"uuid": "GPU-1", "readings": [1]}, "readings must be an object of numbers"),
        ({"uuid": "GPU-1", "readings": {"Temp": 1}}, "readings: 'Temp' must match"),
        ({"uuid": "GPU-1", "readings": {"temp": "hot"}}, "temp must be a number"),
        ({"uuid": "GPU-1", "readings": {f"r{n}": 1 for n in range(65)}}, "at most 64"),
    ],
)
def test_a_faulty_device_is_refused_by_the_field(device: dict[str, object], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        Device.from_dict(device)


@given(commands)
def test_a_command_survives_its_command_line(command: WorkerCommand) -> None:
    assert WorkerCommand.parse(command.argv()[3:]) == command


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a b"}, "--name"),
        ({"version_label": "v1"}, "--version-label must be MODEL:VERSION"),
        ({"engine": "triton"}, "--engine must be one of"),
        ({"device": "tpu"}, "--device must be one of"),
        ({"slots": 0}, "--slots must be from 1"),
        ({"grace_seconds": float("nan")}, "--grace-seconds must be from 0"),
        ({"heartbeat_url": "ftp://x"}, "--heartbeat-url must start with"),
        ({"abilities": ("Chat",)}, "--abilities"),
    ],
)
def test_a_faulty_command_names_its_option(changes: dict[str, object], message: str) -> None:
    sound = WorkerCommand(
        model_dir=Path("m"), name="w", deployment="1", service="chat", version_label="chat:v1"
    )
    with pytest.raises(ProtocolError, match=message):
        replace(sound, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments", [[], ["--name=w"], ["--settings=[]"], ["--settings={"], ["--slots=many"], ["-x"]]
)
def test_a_faulty_command_line_is_refused(arguments: list[str]) -> None:
    with pytest.raises(ProtocolError):
        WorkerCommand.parse(arguments)


def test_the_protocol_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import serving.protocol;"
        "print(sorted(n for n in {m.partition('.')[0] for m in set(sys.modules) - before}"
        " if n not in sys.stdlib_module_names and n != 'serving'))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
