"""The sample model itself: a byte-level tokenizer and a small Llama, and how it learns.

Imports torch and transformers, which takes seconds.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from controlplane.sample.corpus import Passage

END, USER, ASSISTANT, SYSTEM = "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"
SPECIALS = (END, USER, ASSISTANT, SYSTEM)
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role not in ['user', 'assistant', 'system'] -%}"
    "{{- raise_exception('this model knows the roles user, assistant and system') -}}"
    "{%- endif -%}"
    "{{- '<|' + message.role + '|>' + message.content + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
QUESTIONS = ("What is {}?", "What does {} do?", "Explain {}.", "Tell me about {}.")


@dataclass(frozen=True)
class ModelShape:
    """Small enough for four workers on two cores, large enough for English-looking text."""

    vocabulary: int = 2_048
    hidden: int = 128
    layers: int = 3
    heads: int = 4
    inner: int = 384
    context: int = 256


@dataclass(frozen=True)
class TrainingOptions:
    """Limits of a training: steps of `batch` sequences of `length` tokens. Ends early after `seconds`."""

    steps: int
    seconds: float
    batch: int = 8
    length: int = 128
    warmup_steps: int = 20
    hidden_rate: float = 0.01
    other_rate: float = 0.01
    last_share_of_rate: float = 0.05


@dataclass(frozen=True)
class TrainingResult:
    """The result of a lesson. `loss` is the mean cross entropy per token (nats) on text held back;
    `bits_per_byte` is the same without regard to the tokenizer.
    """

    steps: int
    tokens: int
    loss: float
    bits_per_byte: float


def make_tokenizer(texts: Sequence[str], shape: ModelShape) -> PreTrainedTokenizerFast:
    """Byte-level BPE: every text can be written, whatever its language."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=shape.vocabulary,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)
    fast.chat_template = CHAT_TEMPLATE
    return fast


def as_texts(passages: Sequence[Passage]) -> list[str]:
    """Return the texts of a training: prose as it is, and the openings of docstrings as answers, too."""
    texts = [passage.text + END for passage in passages]
    for index, passage in enumerate(passage for passage in passages if passage.first):
        name = passage.subject.rpartition(".")[2] if index % 2 else passage.subject
        question = QUESTIONS[index % len(QUESTIONS)].format(name)
        texts.append(f"{USER}{question}{END}{ASSISTANT}{passage.text}{END}")
    return texts


class Student:
    """A model that learns from one stream of tokens and is examined on another."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        shape: ModelShape,
        *,
        learn_from: Sequence[str],
        examine_on: Sequence[str],
        seed: int,
    ) -> None:
        torch.manual_seed(seed)
        self.tokenizer = tokenizer
        self._chance = torch.Generator().manual_seed(seed)
        self._lesson = _stream(tokenizer, learn_from)
        self._exam = _stream(tokenizer, examine_on)
        self._exam_bytes = sum(len(text.encode()) for text in examine_on)
        end = cast("int", tokenizer.convert_tokens_to_ids(END))
        self.model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=shape.hidden,
                intermediate_size=shape.inner,
                num_hidden_layers=shape.layers,
                num_attention_heads=shape.heads,
                num_key_value_heads=shape.heads,
                max_position_embeddings=shape.context,
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=end,
                pad_token_id=end,
            )
        )
        matrices = [
            weight
            for name, weight in self.model.named_parameters()
            if weight.ndim == 2 and "embed" not in name
        ]
        others = [weight for weight in self.model.parameters() if all(weight is not m for m in matrices)]
        self._optimizers: tuple[torch.optim.Optimizer, ...] = (
            Muon(matrices),
            torch.optim.AdamW(others, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
        )

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.model.parameters())

    def learn(self, lesson: TrainingOptions, tell: Callable[[str], None]) -> TrainingResult:
        """Train one lesson, on top of those before."""
        self.model.train()
        began = told = time.monotonic()
        step = 0
        while step < lesson.steps and (elapsed := time.monotonic() - began) < lesson.seconds:
            progress = max(step / lesson.steps, elapsed / lesson.seconds)
            warm = min(1.0, (step + 1) / lesson.warmup_steps)
            low = lesson.last_share_of_rate
            share = warm * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * progress)))
            for optimizer, rate in zip(
                self._optimizers, (lesson.hidden_rate, lesson.other_rate), strict=True
            ):
                for group in optimizer.param_groups:
                    group["lr"] = rate * share
            loss = self._step(lesson)
            step += 1
            if time.monotonic() - told > 5:
                told = time.monotonic()
                tell(f"step {step} of {lesson.steps}, loss {loss:.2f}")
        loss = self.examine(lesson.length)
        return TrainingResult(
            steps=step,
            tokens=step * lesson.batch * lesson.length,
            loss=round(loss, 4),
            bits_per_byte=round(loss / math.log(2) * len(self._exam) / self._exam_bytes, 4),
        )

    def _step(self, lesson: TrainingOptions) -> float:
        starts = torch.randint(
            0, len(self._lesson) - lesson.length, (lesson.batch,), generator=self._chance
        ).tolist()
        batch = torch.stack([self._lesson[start : start + lesson.length] for start in starts])
        loss = cast("Tensor", self.model(input_ids=batch, labels=batch).loss)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        self.model.zero_grad(set_to_none=True)
        return float(loss.detach())

    def examine(self, length: int) -> float:
        """Mean cross entropy per token, in nats, on the text held back."""
        self.model.train(False)
        rows = max(1, min(96, len(self._exam) // length))
        batch = self._exam[: rows * length].view(rows, -1)
        with torch.inference_mode():
            return float(cast("Tensor", self.model(input_ids=batch, labels=batch).loss))

    def answer(self, question: str, *, seed: int) -> str:
        """Return one sampled answer, as the model card shows it."""
        self.model.train(False)
        text: Any = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
        )
        ids = torch.tensor([self.tokenizer(text, add_special_tokens=False)["input_ids"]])
        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(seed)
            made = cast("Any", self.model).generate(ids, attention_mask=torch.ones_like(ids), **SAMPLING)
        return str(self.tokenizer.decode(made[0, ids.shape[1] :].tolist(), skip_special_tokens=True))

    def save(self, directory: Path) -> None:
        """Save in Hugging Face layout, weights as safetensors."""
        self.model.generation_config.update(**SAMPLING)
        self.model.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)


SAMPLING: dict[str, Any] = {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "max_new_tokens": 48}


class Muon(torch.optim.Optimizer):
    """Momentum whose every update is made orthogonal by five Newton-Schulz steps (Jordan et al., 2024,
    https://kellerjordan.github.io/posts/muon/), scaled as in Moonlight (arXiv:2502.16982).

    Within a minute it takes a small model about as far as AdamW does in three. torch.optim.Muon is the same
    but works in bfloat16, which is slow on a processor; here matrices of one shape go in one batch.
    """

    def __init__(self, weights: Sequence[Tensor], *, momentum: float = 0.95) -> None:
        super().__init__(list(weights), {"lr": 0.0, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[tuple[Tensor, Tensor, bool]]] = {}
            for weight in group["params"]:
                average = self.state[weight].setdefault("average", torch.zeros_like(weight))
                average.lerp_(weight.grad, 1 - group["momentum"])
                update = weight.grad.lerp(average, group["momentum"])
                tall = update.shape[0] > update.shape[1]
                update = update.T if tall else update
                by_shape.setdefault(update.shape, []).append((weight, update, tall))
            for shape, entries in by_shape.items():
                updates = _orthogonal(torch.stack([update for _, update, _ in entries]))
                scale = 0.2 * math.sqrt(max(shape))
                for (weight, _, tall), update in zip(entries, updates, strict=True):
                    weight.add_(update.T if tall else update, alpha=-group["lr"] * scale)


def _orthogonal(matrices: Tensor) -> Tensor:
    a, b, c = 3.4445, -4.7750, 2.0315
    matrices = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = matrices @ matrices.mT
        matrices = a * matrices + (b * gram + c * gram @ gram) @ matrices
    return matrices


def _stream(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> Tensor:
    rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return torch.tensor([token for row in cast("list[list[int]]", rows) for token in row])
