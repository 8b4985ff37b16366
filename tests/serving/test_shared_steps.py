"""Which models requests share forward steps with, and what becomes of the others."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serving.engines.base import EngineError
from serving.openai import TextPrompt
from tests.serving.tiny_model import write_tiny_model
from tests.serving.transformers_rig import engine_of, request, text

pytestmark = pytest.mark.process


async def test_a_model_whose_attention_cannot_be_shared_takes_turns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from transformers import FalconConfig, FalconForCausalLM

    directory = write_tiny_model(tmp_path / "m")
    (directory / "model.safetensors").unlink()
    config = FalconConfig(
        vocab_size=260, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, alibi=True
    )
    FalconForCausalLM(config).save_pretrained(directory)
    with pytest.raises(EngineError, match="cannot share steps"):
        await engine_of(directory, batching="continuous").start()
    engine = engine_of(directory)
    await engine.start()
    assert "do not share steps" in caplog.text
    assert await text(engine, request())
    await engine.stop()


def soft_caps() -> Any:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    return Gemma2ForCausalLM(
        Gemma2Config(
            vocab_size=260,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
        )
    )


def sinks() -> Any:
    from transformers import GptOssConfig, GptOssForCausalLM

    return GptOssForCausalLM(
        GptOssConfig(
            vocab_size=260,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            num_local_experts=2,
            num_experts_per_tok=1,
            eos_token_id=2,
            pad_token_id=0,
        )
    )


@pytest.mark.parametrize(
    ("model", "named"), [(soft_caps, "its attention has soft caps"), (sinks, "its attention has sinks")]
)
@pytest.mark.parametrize("batching", ["continuous", "static"])
async def test_attention_that_cannot_be_shared_is_named_at_load(
    tmp_path: Path, model: Callable[[], Any], named: str, batching: str
) -> None:
    directory = write_tiny_model(tmp_path / "m")
    model().save_pretrained(directory)
    with pytest.raises(EngineError, match=f"batching is {batching}.*{named}.*set batching to auto or off"):
        await engine_of(directory, batching=batching).start()


async def test_windows_of_attention_hold_beside_others(tmp_path: Path) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    directory = write_tiny_model(tmp_path / "m")
    MistralForCausalLM(
        MistralConfig(
            vocab_size=260,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            sliding_window=5,
            max_position_embeddings=256,
            eos_token_id=2,
        )
    ).save_pretrained(directory)
    shared, alone = engine_of(directory, batching="continuous"), engine_of(directory, batching="off")
    await shared.start()
    await alone.start()
    asked = [request(TextPrompt("story" * number)) for number in range(1, 6)]
    assert await asyncio.gather(*(text(shared, one) for one in asked)) == [
        await text(alone, one) for one in asked
    ]
    await shared.stop()
    await alone.stop()
