"""Continuous batching beside static and turns: `python -m perf.batching [--seeds 3] [--device cuda]`.

The transformers engine answers 32 requests at once in 8 slots, with a Llama of some 13 million random
weights. Lengths of prompts and answers are lognormal (mean 33 tokens, at most 131). `generate`
is transformers' own batch, padded on the left, eight requests at a time, each until its longest answer ends.
Compared in one run are useful tokens per second of own CPU, forward steps, and the 95th percentile of the
time to first token of the shorter half of the answers. Required of continuous batching: 1.7 times the tokens
per CPU second of `generate`; beside our static, half the steps and half the time to first token. All ways of
the engine must say the same at temperature 0.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from perf.required import RequiredFigure, at_most, report
from serving.engines.transformers import TransformersEngine, TransformersSettings
from serving.openai import Sampling, TextRequest, TokenPrompt
from serving.worker_command import WorkerCommand

REQUESTS, SLOTS, VOCABULARY, LONGEST = 32, 8, 2_000, 131
WAYS = ("continuous", "static", "off")


@dataclass(frozen=True, slots=True)
class BatchedText:
    text: str
    tokens: int
    first_token_seconds: float


@dataclass(frozen=True, slots=True)
class BatchingFigures:
    texts: list[str]
    tokens_per_cpu_second: float
    steps: int
    short_ttft_p95: float


def write_model(directory: Path, *, heads: int = 8) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(directory)
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=384,
        intermediate_size=1_024,
        num_hidden_layers=6,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=0.05,
    )
    LlamaForCausalLM(config).save_pretrained(directory)


def requests_of(seed: int) -> list[TextRequest]:
    draw = random.Random(seed)

    def length() -> int:
        return max(2, min(LONGEST, round(draw.lognormvariate(3.15, 0.83))))

    return [
        TextRequest(
            prompt=TokenPrompt(tuple(draw.randrange(VOCABULARY) for _ in range(length()))),
            sampling=Sampling(max_tokens=length(), temperature=0.0, top_p=None, seed=None, stop=()),
        )
        for _ in range(REQUESTS)
    ]


async def answer(engine: TransformersEngine, asked: TextRequest) -> BatchedText:
    began, first, text, tokens = time.monotonic(), 0.0, [], 0
    async for piece in engine.generate(asked):
        first = first or time.monotonic() - began
        text.append(piece.text)
        tokens = piece.completion_tokens
    return BatchedText("".join(text), tokens, first)


async def measure(directory: Path, batching: str, asked: list[TextRequest], device: str) -> BatchingFigures:
    command = WorkerCommand(
        model_dir=directory,
        name="perf",
        deployment="1",
        service="perf",
        version_label="perf:v1",
        engine="transformers",
        device=device,
        slots=SLOTS,
    )
    engine = TransformersEngine(command, TransformersSettings(batching=batching, threads=1))
    await engine.start()
    await answer(engine, asked[0])
    steps, cpu = engine.forward_steps, time.process_time()
    answers = await asyncio.gather(*(answer(engine, one) for one in asked))
    cpu, steps = time.process_time() - cpu, engine.forward_steps - steps
    await engine.stop()
    shorter = sorted(answers, key=lambda one: one.tokens)[: REQUESTS // 2]
    waits = [one.first_token_seconds for one in shorter]
    return BatchingFigures(
        texts=[one.text for one in answers],
        tokens_per_cpu_second=sum(one.tokens for one in answers) / cpu,
        steps=steps,
        short_ttft_p95=statistics.quantiles(waits, n=20)[-1],
    )


def measure_generate(directory: Path, asked: list[TextRequest], device: str) -> float:
    """Return useful tokens per CPU second of transformers' own padded batches."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(directory).to(device)
    useful, began = 0, time.process_time()
    for first in range(0, len(asked), SLOTS):
        batch = asked[first : first + SLOTS]
        prompts = [list(one.prompt.ids) for one in batch if isinstance(one.prompt, TokenPrompt)]
        lengths = [one.sampling.max_tokens or 0 for one in batch]
        width = max(map(len, prompts))
        model.generate(
            input_ids=torch.tensor([[0] * (width - len(ids)) + ids for ids in prompts], device=device),
            attention_mask=torch.tensor(
                [[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts], device=device
            ),
            max_new_tokens=max(lengths),
            do_sample=False,
            pad_token_id=0,
        )
        useful += sum(lengths)
    return useful / (time.process_time() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    found: dict[str, list[BatchingFigures]] = {way: [] for way in WAYS}
    generated = []
    with tempfile.TemporaryDirectory() as place:
        write_model(Path(place))
        for seed in range(options.seeds):
            # Whoever comes first pays for a cold machine: each does once.
            for way in WAYS[seed % 3 :] + WAYS[: seed % 3]:
                found[way].append(asyncio.run(measure(Path(place), way, requests_of(seed), options.device)))
            generated.append(measure_generate(Path(place), requests_of(seed), options.device))

    def mean(way: str, name: str) -> float:
        return statistics.fmean(getattr(one, name) for one in found[way])

    rows = [
        RequiredFigure(
            f"{way}: tokens per CPU s; steps; short TTFT p95",
            f"{mean(way, 'tokens_per_cpu_second'):.0f}; {mean(way, 'steps'):.0f}; "
            f"{mean(way, 'short_ttft_p95'):.2f} s",
        )
        for way in WAYS
    ]
    differing = sum(
        a != b
        for way in WAYS[1:]
        for mine, other in zip(found["continuous"], found[way], strict=True)
        for a, b in zip(mine.texts, other.texts, strict=True)
    )
    continuous, generate = mean("continuous", "tokens_per_cpu_second"), statistics.fmean(generated)
    rows += [
        RequiredFigure("generate: tokens per CPU s", f"{generate:.0f}"),
        at_most("CPU per token, continuous over generate", generate / continuous, 1 / 1.7),
        at_most("steps, continuous over static", mean("continuous", "steps") / mean("static", "steps"), 0.5),
        at_most(
            "short TTFT p95, continuous over static",
            mean("continuous", "short_ttft_p95") / mean("static", "short_ttft_p95"),
            0.5,
        ),
        at_most("answers that differ", differing, 0),
    ]
    return report(rows)


if __name__ == "__main__":
    raise SystemExit(main())
