"""Eviction of prompt tokens by attention: which ones stay, and what answers are made of then."""

import math
from pathlib import Path
from typing import Any

import pytest

from serving.engines.base import EngineError
from serving.openai import TokenPrompt
from tests.serving.tiny_model import write_tiny_model
from tests.serving.transformers_rig import engine_of, request, text

pytestmark = pytest.mark.process

RECENT, SINKS, SHARE, PROMPT = 16, 3, 0.4, 160
SETTINGS = {"prompt_kv_share": SHARE, "prompt_kv_recent": RECENT, "prompt_kv_sinks": SINKS}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("kv") / "model", context=512)


def prompt(tokens: int = PROMPT) -> list[int]:
    return [(place * place + 3 * place) % 250 for place in range(tokens)]


def read(directory: Path, ids: list[int], *, parts: int, **settings: Any) -> Any:
    """Read a prompt by the engine's own steps, in so many parts; return the model and the continuation."""
    from serving.engines.causal import CausalModel
    from serving.engines.scheduler import StepScheduler
    from serving.engines.transformers import TransformersSettings

    size = math.ceil(len(ids) / parts)
    given = TransformersSettings(**SETTINGS | {"prefill_tokens": size} | settings)
    model = CausalModel.load(directory, device="cpu", settings=given)
    assert model.share_steps(2) == ""
    scheduler = StepScheduler(model, slots=2, batching="continuous")
    continuation = scheduler.enter(request(TokenPrompt(tuple(ids)), max_tokens=4))
    for _ in range(parts):
        found = list(scheduler.step())
    assert len(found) == 1
    return model, scheduler, continuation


def reference_positions(directory: Path, ids: list[int], *, sinks: int) -> list[Any]:
    """Return the positions that SnapKV keeps by layer, from transformers' own attention, written anew."""
    import torch
    from torch.nn.functional import avg_pool1d, pad
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    with torch.inference_mode():
        attentions = model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
    found = []
    for shares in attentions:
        scores = avg_pool1d(shares[0, :, -RECENT:, :-RECENT].mean(1), 5, padding=2, stride=1)
        scores = scores.view(2, 2, -1).mean(1)
        scores[:, :sinks] = scores.max()
        scores = pad(scores, (0, RECENT), value=scores.max().item())
        found.append(scores.topk(int(len(ids) * SHARE)).indices.sort().values)
    return found


def gathered_cache(directory: Path, ids: list[int], kept: list[Any]) -> tuple[Any, Any]:
    """Return transformers' model and its own cache of the prompt, of the kept positions alone."""
    import torch
    from transformers import AutoModelForCausalLM, DynamicCache

    model = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        model(input_ids=torch.tensor([ids]), past_key_values=cache)
    for layer, chosen in zip(cache.layers, kept, strict=True):
        places = chosen[None, :, :, None].expand(-1, -1, -1, layer.keys.shape[3])
        layer.keys, layer.values = layer.keys.gather(2, places), layer.values.gather(2, places)
    return model, cache


@pytest.mark.parametrize("parts", [1, 7])
def test_the_kept_tokens_are_those_of_snapkv_however_the_prompt_is_parted(tiny: Path, parts: int) -> None:
    import torch

    ids = prompt()
    model, _scheduler, _continuation = read(tiny, ids, parts=parts)
    expected = reference_positions(tiny, ids, sinks=SINKS)
    _plain, cache = gathered_cache(tiny, ids, expected)
    for layer, chosen in enumerate(expected):
        assert set(range(SINKS)) <= set(chosen[0].tolist())
        held = model._slot_cache.keys[layer][0, :, : int(PROMPT * SHARE)]
        torch.testing.assert_close(held, cache.layers[layer].keys[0], rtol=1e-4, atol=1e-5)


def test_an_answer_is_made_of_the_kept_tokens_at_their_own_positions(tiny: Path) -> None:
    import torch

    ids = prompt()
    model, scheduler, continuation = read(tiny, ids, parts=3)
    plain, cache = gathered_cache(tiny, ids, reference_positions(tiny, ids, sinks=SINKS))
    token = continuation._pending[0]
    with torch.inference_mode():
        expected = plain(
            input_ids=torch.tensor([[token]]),
            position_ids=torch.tensor([[PROMPT]]),
            cache_position=torch.tensor([int(PROMPT * SHARE)]),
            past_key_values=cache,
        ).logits[0, -1]
    seen = model.forward_together([continuation.segment(0, [token])])[0]
    torch.testing.assert_close(seen, expected, rtol=1e-3, atol=1e-4)
    # Another request reads its prompt meanwhile, and takes nothing of the first one's.
    scheduler.enter(request(TokenPrompt(tuple(prompt(100))), max_tokens=4))
    made = [piece for _ in range(3) for one, piece in scheduler.step() if one is continuation]
    assert [one.prompt_tokens for one in made] == [PROMPT] * 3
    assert made[-1].finish_reason == "length"


async def test_a_short_prompt_loses_nothing_and_settings_that_cannot_be_are_refused(tiny: Path) -> None:
    evicting, plain = engine_of(tiny, **SETTINGS), engine_of(tiny)
    await evicting.start()
    await plain.start()
    short = request(TokenPrompt(tuple(prompt(RECENT + SINKS))))
    assert await text(evicting, short) == await text(plain, short)
    long = request(TokenPrompt(tuple(prompt(400))), max_tokens=64)
    assert await text(evicting, long) != await text(plain, long)
    await evicting.stop()
    await plain.stop()
    with pytest.raises(EngineError, match="prompt_kv_share is below 1, which needs batching"):
        await engine_of(tiny, batching="off", **SETTINGS).start()


async def test_a_sliding_window_refuses_eviction(tmp_path: Path) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    directory = write_tiny_model(tmp_path / "m")
    (directory / "model.safetensors").unlink()
    config = MistralConfig(
        vocab_size=260, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=32,
    )  # fmt: skip
    MistralForCausalLM(config).save_pretrained(directory)
    with pytest.raises(EngineError, match="sliding window"):
        await engine_of(directory, **SETTINGS).start()
