"""Settings of a version are read strictly, and its faults are played as drawn."""

import json
from pathlib import Path
from typing import Any

import pytest

from serving.engines.echo import EchoSettings
from serving.engines.registry import ENGINES
from serving.engines.server_options import ServerSettings
from serving.faults import FaultInjection, Faults
from serving.openai import RequestFault
from serving.settings import SettingsError, VersionSettings, read_settings


def version(directory: Path, content: Any) -> VersionSettings:
    text = content if isinstance(content, str) else json.dumps(content)
    (directory / "slipway.json").write_text(text)
    return VersionSettings.beside(directory)


def test_a_version_without_a_file_asks_for_nothing(tmp_path: Path) -> None:
    assert VersionSettings.beside(tmp_path) == VersionSettings(engines={}, serving={})


def test_faults_and_engine_settings_are_read(tmp_path: Path) -> None:
    file = version(
        tmp_path, {"serving": {"delay_ms": 300, "fail_share": 0.1}, "engines": {"echo": {"tokens": 3}}}
    )
    assert read_settings(Faults, file.serving, where="x") == Faults(delay_ms=300.0, fail_share=0.1)
    assert read_settings(EchoSettings, file.engines["echo"], where="x").tokens == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "slipway.json cannot be read"),
        ([], "slipway.json must be a JSON object"),
        ({"servin": {}}, "slipway.json does not know servin; it knows engines, serving"),
        ({"engines": []}, "engines must be a JSON object"),
        ({"engines": {"triton": {}}}, "engines does not know triton"),
        ({"engines": {"echo": 1}}, "engines: echo must be a JSON object"),
    ],
)
def test_a_faulty_file_is_refused_in_words(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        version(tmp_path, content)


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (
            {"delay": 3},
            "there does not know delay; it knows after_requests, delay_ms, fail_share, slow_share",
        ),
        ({"fail_share": 1.5}, "there: fail_share must be from 0 to 1"),
        ({"fail_share": "all"}, "there: fail_share must be a number"),
        ({"after_requests": 1.5}, "there: after_requests must be a whole number"),
        ({"delay_ms": True}, "there: delay_ms must be a number"),
        ({"delay_ms": float("nan")}, "there: delay_ms must be from 0"),
        ("slow", "there must be a JSON object"),
    ],
)
def test_a_faulty_fault_is_refused_in_words(faults: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_settings(Faults, faults, where="there")


async def failures(faults: Faults, requests: int) -> list[int]:
    """Numbers of the requests that were answered 500."""
    injection = FaultInjection(faults, seed=3)
    outcomes = [await outcome(injection) for _ in range(requests)]
    assert set(outcomes) <= {200, 500}
    return [number for number, status in enumerate(outcomes) if status == 500]


async def outcome(injection: FaultInjection) -> int:
    try:
        await injection.strike()
    except RequestFault as fault:
        return fault.status
    return 200


async def test_a_share_of_the_requests_fails() -> None:
    failed = await failures(Faults(fail_share=0.1), 2_000)
    assert 150 < len(failed) < 250


async def test_faults_begin_after_the_first_requests() -> None:
    assert await failures(Faults(fail_share=1.0, after_requests=10), 15) == [10, 11, 12, 13, 14]


async def test_no_faults_are_no_faults() -> None:
    assert await failures(Faults(), 100) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hos": "0.0.0.0"}, "hos is set by the worker or not allowed"),
        ({"port": 1}, "port is set by the worker or not allowed"),
        ({"trust_remote_code": True}, "trust-remote-code is set by the worker or not allowed"),
        ({"tool-parser-plugin": "x.py"}, "not allowed"),
        ({"--dtype": "auto"}, "is not the name of an option"),
        ({"dtype": None}, "dtype must not be null"),
        ({"load_timeout_seconds": 0}, "load_timeout_seconds must be from 1"),
    ],
)
def test_options_of_vllm_that_a_version_must_not_set_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        ServerSettings.read(settings, ENGINES["vllm"], where="settings")


def test_settings_of_vllm_become_its_options_by_its_own_and_by_shared_names() -> None:
    vllm = ENGINES["vllm"]
    settings = ServerSettings.read(
        {
            "max_model_len": 4096,
            "enable-prefix-caching": True,
            "enable-chunked-prefill": False,
            "kv-transfer-config": {"a": 1},
            "cudagraph-capture-sizes": [1, 2],
            "tensor_parallel": 2,
        },
        vllm,
        where="settings",
    )
    assert vllm.program is not None
    assert settings.arguments(vllm.program) == [
        "--max-model-len=4096",
        "--enable-prefix-caching",
        "--no-enable-chunked-prefill",
        '--kv-transfer-config={"a": 1}',
        "--cudagraph-capture-sizes",
        "1",
        "2",
        "--tensor-parallel-size=2",
    ]
