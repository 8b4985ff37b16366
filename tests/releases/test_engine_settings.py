"""The settings of engines as fields: they are those that the engines take, and no others."""

from typing import Any, get_type_hints

import jsonschema
import pytest

from clusters.engine_settings import setting_faults, settings_of, split
from releases.pages.memory import MemoryRequirement, WorkerMemory, advise
from serving.engines.echo import EchoSettings
from serving.engines.registry import ENGINES
from serving.engines.server_options import ServerSettings
from serving.engines.transformers import TransformersSettings
from serving.prompt_compression import CompressionSettings
from serving.settings import Range

GIB = 2**30


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [("echo", [EchoSettings]), ("transformers", [TransformersSettings, CompressionSettings])],
)
def test_the_fields_of_an_engine_have_the_bounds_that_the_engine_checks(
    engine: str, kinds: list[type]
) -> None:
    hints: dict[str, Any] = {}
    for kind in kinds:
        hints |= get_type_hints(kind, include_extras=True)
    for setting in settings_of(engine):
        assert setting.key in hints
        bounds = next(
            (one for one in getattr(hints[setting.key], "__metadata__", ()) if isinstance(one, Range)), None
        )
        assert (setting.least, setting.most) == ((bounds.low, bounds.high) if bounds else (None, None))


@pytest.mark.parametrize("engine", [name for name, spec in ENGINES.items() if spec.program])
def test_a_server_takes_each_setting_that_has_a_field(engine: str) -> None:
    given = {setting.key: setting.most or "auto" for setting in settings_of(engine)}
    taken = ServerSettings.read(given, ENGINES[engine], where="settings").flags
    assert set(taken) | {"load-timeout-seconds"} == {key.replace("_", "-") for key in given}


def test_the_schema_of_an_engines_settings_refuses_what_the_engine_would() -> None:
    schema = ENGINES["vllm"].settings_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    read = jsonschema.Draft202012Validator(schema)
    assert read.is_valid(
        {"tensor_parallel_size": 2, "enable_prefix_caching": True, "max_num_batched_tokens": 9}
    )
    assert not read.is_valid({"tensor_parallel_size": 0})
    assert not jsonschema.Draft202012Validator(ENGINES["echo"].settings_schema()).is_valid({"unheard": 1})


def test_a_setting_that_the_engine_would_refuse_is_told_by_name() -> None:
    assert setting_faults("vllm", {"max-model-len": "8k", "gpu_memory_utilization": 1.5}) == [
        "max_model_len: Give a whole number.",
        "gpu_memory_utilization: Give at most 1.",
    ]
    assert setting_faults("transformers", {"dtype": "float8"}) == [
        "dtype: Choose one of auto, float32, bfloat16, float16."
    ]
    assert setting_faults("vllm", {"max_model_len": 8192, "enable-prefix-caching": True}) == []


def test_what_has_a_field_goes_there_however_it_is_spelt() -> None:
    assert split("vllm", {"max-model-len": 8192, "enable-chunked-prefill": True}) == (
        {"max_model_len": 8192},
        {"enable-chunked-prefill": True},
    )


def test_the_advice_says_what_to_change_when_all_slots_do_not_fit() -> None:
    need = MemoryRequirement(
        weights_bytes=16 * GIB, cache_bytes_per_1k_tokens=GIB // 8, slots=64, context=8_000
    )
    assert need.total == 80 * GIB
    tight = advise(need, [WorkerMemory("H100", 80 * GIB, gpus=1)])
    assert (tight.tone, tight.title) == ("warn", "The weights fit, but not all slots at full context.")
    assert "Use 2 GPUs per worker." in tight.lines
    assert "Or take 56 slots." in tight.lines
    assert "Or limit the context to 6912 tokens." in tight.lines
    assert advise(need, [WorkerMemory("H200", 141 * GIB, gpus=1)]).tone == "good"
    assert advise(need, [WorkerMemory("L4", 15 * GIB, gpus=1)]).tone == "bad"
    mixed = advise(need, [WorkerMemory("L4", 15 * GIB, gpus=1), WorkerMemory("H200", 141 * GIB, gpus=1)])
    assert mixed.tone == "warn"


def test_what_the_files_do_not_tell_is_not_made_up() -> None:
    advice = advise(
        MemoryRequirement(None, None, slots=4, context=None), [WorkerMemory("H100", 80 * GIB, gpus=1)]
    )
    assert (advice.tone, advice.lines) == ("quiet", ())
