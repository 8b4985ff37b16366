"""A small model that has really learnt something, and sets of items to test and calibrate it with."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

from tests.serving.tiny_model import write_tiny_model

WHO, DOES = ("the cat", "a dog", "my bird", "one fish"), ("sees", "likes", "finds")
WHAT = ("the tree", "a house", "some rain")

TASK = """\
task: prose
dataset_path: json
dataset_kwargs: {data_files: {test: items.jsonl}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: byte_perplexity}]
"""


def sentences(count: int, *, seed: int) -> list[str]:
    """Return different sentences of one simple grammar."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        first = f"{draw.choice(WHO)} {draw.choice(DOES)} {draw.choice(WHAT)}"
        found[f"{first} and {draw.choice(WHO)} {draw.choice(DOES)} it {len(found)}."] = None
    return list(found)


def write_items(path: Path, texts: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def write_task(directory: Path, data: Path) -> Path:
    """Write a task file of lm-eval on texts, with its data beside it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "items.jsonl").write_bytes(data.read_bytes())
    path = directory / "prose.yaml"
    path.write_text(TASK)
    return path


def write_taught_model(directory: Path, *, steps: int = 60) -> Path:
    """Train the tiny model, 128 channels wide, until it writes such sentences. Takes some seconds."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    write_tiny_model(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    config = LlamaConfig.from_pretrained(directory)
    config.intermediate_size, config.initializer_range = 128, 0.05
    torch.manual_seed(5)
    model = LlamaForCausalLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    texts = sentences(400, seed=1)
    draw = random.Random(2)
    for _ in range(steps):
        batch = tokenizer(draw.sample(texts, 16))["input_ids"]
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one in batch], batch_first=True)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval().save_pretrained(directory)
    return directory
