"""The engine says what the model says: as transformers' own generation, one step at a time."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from serving.engines.base import EngineError
from serving.engines.transformers import TransformersEngine, TransformersSettings
from serving.openai import (
    ChatPrompt,
    Message,
    RequestFault,
    TextPrompt,
    TextRequest,
    TokenPrompt,
)
from tests.serving.tiny_model import write_tiny_model
from tests.serving.transformers_rig import PROMPT, engine_of, pieces, request, text
from tests.serving.workers import command

pytestmark = pytest.mark.process


@pytest.fixture
async def engine(tiny_model: Path) -> AsyncIterator[TransformersEngine]:
    engine = engine_of(tiny_model)
    await engine.start()
    yield engine
    await engine.stop()


async def test_greedy_text_is_that_of_transformers_own_generation(
    engine: TransformersEngine, tiny_model: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    ids = tokenizer(PROMPT.text, return_tensors="pt")
    made = model.generate(**ids, max_new_tokens=24, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert await text(engine, request()) == tokenizer.decode(made, skip_special_tokens=True)


@pytest.mark.parametrize("part", [1, 3, 1_000])
async def test_a_prompt_read_in_parts_says_the_same(
    engine: TransformersEngine, tiny_model: Path, part: int
) -> None:
    other = engine_of(tiny_model, prefill_tokens=part)
    await other.start()
    assert await text(other, request()) == await text(engine, request())
    await other.stop()


async def test_answers_made_side_by_side_are_those_made_alone(engine: TransformersEngine) -> None:
    asked = [
        request(TextPrompt(f"Story number {number}"), seed=number, temperature=1.0) for number in range(5)
    ]
    alone = [await text(engine, one) for one in asked]
    assert await asyncio.gather(*(text(engine, one) for one in asked)) == alone
    assert len(set(alone)) == 5


@pytest.mark.parametrize("batching", ["continuous", "static", "off"])
async def test_greedy_text_is_the_same_alone_and_beside_others(tiny_model: Path, batching: str) -> None:
    """Prompts of many lengths, read in parts, in fewer slots than requests."""
    engine = engine_of(tiny_model, batching=batching, prefill_tokens=7)
    await engine.start()
    asked = [request(TextPrompt("ab" * number), max_tokens=3 * number) for number in range(1, 14)]
    alone = [await text(engine, one) for one in asked]
    steps_alone = engine.forward_steps
    assert await asyncio.gather(*(text(engine, one) for one in asked)) == alone
    share = (engine.forward_steps - steps_alone) / steps_alone
    assert {"continuous": 0.2 < share < 0.45, "static": share < 0.7, "off": share == 1}[batching]
    await engine.stop()


async def test_a_request_enters_a_running_batch_unless_batches_are_static(tiny_model: Path) -> None:
    ends = {}
    for batching in ("continuous", "static"):
        engine = engine_of(tiny_model, batching=batching)
        await engine.start()
        long = engine.generate(request(max_tokens=200))
        await anext(long)
        await text(engine, request(TextPrompt("late"), max_tokens=3))
        ends[batching] = engine.forward_steps
        await engine.stop()
    assert ends["continuous"] < 100 < 200 <= ends["static"]


async def test_a_request_that_spoils_a_shared_step_fails_alone(engine: TransformersEngine) -> None:
    alone = await text(engine, request())
    good, bad = await asyncio.gather(
        text(engine, request()),
        pieces(engine, request(TokenPrompt((-1, -1)))),
        return_exceptions=True,
    )
    assert good == alone
    assert isinstance(bad, RequestFault)
    assert bad.status == 500


async def test_the_seed_decides_a_drawn_answer(engine: TransformersEngine) -> None:
    drawn = request(temperature=1.0, seed=5)
    assert await text(engine, drawn) == await text(engine, drawn)
    assert await text(engine, drawn) != await text(engine, request(temperature=1.0, seed=6))


async def test_a_narrow_nucleus_is_greedy(engine: TransformersEngine) -> None:
    narrow = request(temperature=1.0, top_p=1e-6, seed=3)
    assert await text(engine, narrow) == await text(engine, request())


async def test_the_nucleus_is_the_smallest_that_holds_the_share() -> None:
    import torch

    from serving.engines.causal import Pick

    logits = torch.log(torch.tensor([0.05, 0.5, 0.3, 0.15]))
    pick = Pick(temperature=1.0, top_k=0, top_p=0.7, seed=1)
    drawn = [pick.token(logits) for _ in range(400)]
    assert set(drawn) == {1, 2}
    assert 0.5 < drawn.count(1) / 400 < 0.75  # 0.5 / 0.8
    assert {Pick(temperature=1.0, top_k=1, top_p=1.0, seed=1).token(logits) for _ in range(20)} == {1}


async def test_logits_that_are_no_numbers_fail_the_request() -> None:
    import torch

    from serving.engines.causal import Pick

    with pytest.raises(FloatingPointError):
        Pick(temperature=1.0, top_k=0, top_p=1.0, seed=1).token(torch.tensor([float("nan"), 1.0]))


async def test_counts_of_tokens_are_totals(engine: TransformersEngine) -> None:
    made = await pieces(engine, request(max_tokens=7))
    assert [piece.completion_tokens for piece in made] == [1, 2, 3, 4, 5, 6, 7]
    assert {piece.prompt_tokens for piece in made} == {len(PROMPT.text)}
    assert [piece.finish_reason for piece in made] == [None] * 6 + ["length"]


async def test_token_ids_are_a_prompt(engine: TransformersEngine, tiny_model: Path) -> None:
    from transformers import AutoTokenizer

    ids = AutoTokenizer.from_pretrained(tiny_model)(PROMPT.text)["input_ids"]
    assert await text(engine, request(TokenPrompt(tuple(ids)))) == await text(engine, request())


async def test_the_chat_template_writes_the_prompt(engine: TransformersEngine) -> None:
    chat = ChatPrompt((Message("user", "Hi"),))
    plain = TextPrompt("<|user|>Hi<|end|><|assistant|>")
    assert await text(engine, request(chat)) == await text(engine, request(plain))


async def test_an_end_token_ends_the_answer(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    directory = write_tiny_model(tmp_path / "m")
    model = AutoModelForCausalLM.from_pretrained(directory)
    end = model.config.eos_token_id
    with torch.no_grad():
        # Whatever the model sees, the end token gets the largest logit.
        model.model.norm.weight.zero_()
        model.lm_head.weight.zero_()
    model.save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    assert config["eos_token_id"] == end
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, end]}))
    engine = engine_of(directory)
    await engine.start()
    (piece,) = await pieces(engine, request())
    assert (piece.text, piece.finish_reason, piece.completion_tokens) == ("", "stop", 1)
    await engine.stop()


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (request(TextPrompt("x" * 600)), "context_length_exceeded", "the prompt has 600"),
        (request(max_tokens=500), "context_length_exceeded", "the prompt has 16 and 500 for the answer"),
        (request(TokenPrompt((9_999,))), "invalid_token", "Token ids must be below 260"),
        (request(TextPrompt("")), None, "The prompt is empty"),
    ],
)
async def test_what_does_not_fit_is_refused(
    engine: TransformersEngine, asked: TextRequest, code: str | None, message: str
) -> None:
    with pytest.raises(RequestFault) as refusal:
        await pieces(engine, asked)
    assert refusal.value.status == 400
    assert refusal.value.document["error"]["code"] == code
    assert message in refusal.value.document["error"]["message"]
    assert await text(engine, request())


async def test_a_template_that_refuses_is_the_clients_fault(tmp_path: Path) -> None:
    template = "{{ raise_exception('roles must alternate') }}"
    engine = engine_of(write_tiny_model(tmp_path / "m", chat_template=template))
    await engine.start()
    with pytest.raises(RequestFault, match="chat template refuses these messages: roles must alternate"):
        await pieces(engine, request(ChatPrompt((Message("user", "Hi"),))))
    await engine.stop()


async def test_without_a_template_the_plain_format_is_used(tmp_path: Path) -> None:
    engine = engine_of(write_tiny_model(tmp_path / "m", chat_template=None))
    await engine.start()
    said = await text(engine, request(ChatPrompt((Message("user", "Hi"),))))
    assert said == await text(engine, request(TextPrompt("User: Hi\n\nAssistant:")))
    await engine.stop()


async def test_closing_the_answer_ends_its_generation(engine: TransformersEngine) -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    await text(engine, request(max_tokens=400))
    whole = clock() - began
    answer = engine.generate(request(max_tokens=400))
    await anext(answer)
    await answer.aclose()
    began = clock()
    await text(engine, request(max_tokens=1))
    assert clock() - began < whole / 2


async def test_stopping_ends_what_is_being_generated(tiny_model: Path) -> None:
    engine = engine_of(tiny_model)
    await engine.start()
    answer = engine.generate(request(max_tokens=400))
    await anext(answer)
    await engine.stop()
    with pytest.raises(EngineError, match="stopped"):
        async for _ in answer:
            pass
    with pytest.raises(EngineError, match="not running"):
        await pieces(engine, request())
    assert await engine.died() == "the engine was stopped"


async def test_a_failure_inside_the_model_fails_one_request_and_not_the_engine(
    engine: TransformersEngine,
) -> None:
    with pytest.raises(RequestFault) as refusal:
        await pieces(engine, request(TokenPrompt((-1,))))  # no request over HTTP gets this far
    assert refusal.value.status == 500
    assert await text(engine, request())


async def test_missing_weights_are_not_made_up(tiny_model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    directory = shutil.copytree(tiny_model, tmp_path / "m")
    weights = load_file(directory / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineError, match=r"1 weights are missing, model\.layers\.1\.mlp\.up_proj\.weight"):
        await engine_of(directory).start()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "int3"}, "dtype must be one of"),
        ({"batching": "dynamic"}, "batching must be one of auto, continuous, static, off"),
        ({"max_context": 100_000}, "max_context is 100000, but this model's limit is 512"),
    ],
)
async def test_settings_that_do_not_fit_the_model_are_refused(
    tiny_model: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        await engine_of(tiny_model, **settings).start()


async def test_a_directory_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"has no config\.json"):
        await engine_of(tmp_path).start()


async def test_pickled_weights_are_not_read(tiny_model: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    directory = shutil.copytree(tiny_model, tmp_path / "m")
    torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    with pytest.raises(EngineError, match="could not be loaded"):
        await engine_of(directory).start()


async def test_code_in_the_directory_does_not_run(tiny_model: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(tiny_model, tmp_path / "m")
    trap = tmp_path / "ran"
    (directory / "evil.py").write_text(f"open({str(trap)!r}, 'w')\nclass Model: ...\nclass Config: ...\n")
    config = json.loads((directory / "config.json").read_text())
    config["model_type"] = "evil"
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    (directory / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineError, match="could not be loaded"):
        await engine_of(directory).start()
    assert not trap.exists()


async def test_a_device_that_is_not_there_is_named(tiny_model: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    engine = TransformersEngine(command(model_dir=tiny_model, device="cuda"), TransformersSettings())
    with pytest.raises(EngineError, match="torch sees no CUDA device here"):
        await engine.start()
