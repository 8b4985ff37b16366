"""Speed of optimised versions of a 60 million weight Llama: `python -m perf.optimised_models [--rounds 3]`.

The recipes `local/int8-dynamic` and `local/prune-mlp` (a quarter of the MLP's channels) are applied to random
weights, whose speed is that of any. The transformers engine then writes 32 tokens for one request, on
one thread; compared are seconds of own CPU, of rounds in turn. Required: int8 1.8, pruned 1.1 times as fast.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from perf.required import at_least, report

TOKENS, PROMPT = 32, 16


def write_model(directory: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.serving.tiny_model import write_tiny_model

    write_tiny_model(directory)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=8_000, hidden_size=768, intermediate_size=2_048, num_hidden_layers=7,
        num_attention_heads=12, num_key_value_heads=12, max_position_embeddings=512,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    print(f"{model.num_parameters() / 1e6:.1f} million weights")
    model.save_pretrained(directory)


def applied(name: str, source: Path, output: Path, calibration: Path, **parameters: Any) -> Path:
    import importlib

    from optimization.recipes import recipes
    from optimization.recipes.order import MakingOrder

    recipe = recipes()[name]
    values, faults = recipe.values(parameters)
    if faults:
        raise SystemExit(str(faults))
    output.mkdir()
    order = MakingOrder(source, output, values, 0, calibration)
    importlib.import_module(recipe.module).make(order, lambda *_: None)
    return output


def loaded(directory: Path) -> Any:
    from serving.engines.causal import CausalModel
    from serving.engines.transformers import TransformersSettings

    model = CausalModel.load(directory, device="cpu", settings=TransformersSettings(threads=1))
    if reason := model.share_steps(1):
        raise SystemExit(reason)
    return model


def cpu_seconds(model: Any) -> float:
    from serving.engines.scheduler import StepScheduler
    from serving.openai import Sampling, TextRequest, TokenPrompt

    scheduler = StepScheduler(model, slots=1, batching="continuous")
    sampling = Sampling(max_tokens=TOKENS, temperature=0.0, top_p=None, seed=None, stop=(), ignore_eos=True)
    scheduler.enter(TextRequest(prompt=TokenPrompt(tuple(range(PROMPT))), sampling=sampling))
    list(scheduler.step())
    began = time.thread_time()
    for _ in range(TOKENS - 1):
        list(scheduler.step())
    return time.thread_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        write_model(root / "parent")
        texts = ["".join(draw.choices("abcdefgh ", k=40)) for _ in range(8)]
        calibration = root / "calibration.jsonl"
        calibration.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        models = {
            "parent": loaded(root / "parent"),
            "int8": loaded(applied("local/int8-dynamic", root / "parent", root / "int8", calibration)),
            "pruned": loaded(
                applied("local/prune-mlp", root / "parent", root / "pruned", calibration, share=0.25)
            ),
        }
        times: dict[str, list[float]] = {name: [] for name in models}
        for number in range(rounds + 1):
            for name, model in models.items():
                seconds = cpu_seconds(model)
                if number:  # the first round warms up
                    times[name].append(seconds)
    middle = {name: statistics.median(some) for name, some in times.items()}
    for name, seconds in middle.items():
        print(f"{name:8}  {seconds / (TOKENS - 1) * 1000:6.1f} ms CPU a token")
    status = report(
        [
            at_least("int8 at batch 1, times as fast", middle["parent"] / middle["int8"], 1.8),
            at_least("a quarter of the MLP pruned, times as fast", middle["parent"] / middle["pruned"], 1.1),
        ]
    )
    raise SystemExit(status)


if __name__ == "__main__":
    main()
