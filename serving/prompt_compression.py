"""Compression of prompts before the engine: words that a small model could have guessed are left out.

Selective Context (Li et al. 2023, arXiv:2310.06201): the self-information of a word is the mean of that of
its tokens. The words with the least leave until the prompt is as short as is wanted. Numbers and JSON always
stay, and so does all that no user wrote. The small model lies in the directory `prompt-compressor/` of the
version and runs on the processor, one prompt at a time.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from serving.engines.base import EngineError
from serving.openai import Call, OpenAiRoute
from serving.settings import Range, read_settings

DIRECTORY = "prompt-compressor"
SWITCH, TOKENS_HEADER, TIME_HEADER = (
    "x-slipway-prompt-compression",
    "x-slipway-prompt-tokens",
    "x-slipway-prompt-compression-ms",
)
"""Of a request: `off` leaves its prompt as it is. Of an answer: tokens before and after, and the time."""
LEAST_TOKENS = 64
"""Shorter prompts are left as they are."""
MOST_WINDOW = 1_024
_WORD = re.compile(r"\S+\s*")


@dataclass(frozen=True, kw_only=True)
class CompressionSettings:
    """`prompt_share`: of a prompt's tokens that stay; 1: no compression. `prompt_target`: as many tokens
    instead; 0: the share counts."""

    prompt_share: Annotated[float, Range(0.05, 1)] = 1.0
    prompt_target: Annotated[int, Range(0, 1_000_000)] = 0

    @property
    def is_on(self) -> bool:
        return self.prompt_share < 1 or self.prompt_target > 0

    def wanted(self, tokens: int) -> int:
        return min(tokens, self.prompt_target) if self.prompt_target else round(tokens * self.prompt_share)


def split_settings(settings: Mapping[str, Any], *, where: str) -> tuple[CompressionSettings, dict[str, Any]]:
    """Return the settings of the stage, and those of the engine. Raises SettingsError."""
    names = CompressionSettings.__dataclass_fields__
    ours = {key: value for key, value in settings.items() if key in names}
    engine = {key: value for key, value in settings.items() if key not in names}
    return read_settings(CompressionSettings, ours, where=where), engine


@dataclass(frozen=True, slots=True)
class CompressedText:
    """`before`, `after`: tokens of the small model."""

    text: str
    before: int
    after: int


class PromptCompressor:
    """The stage. `load` it before it is asked."""

    def __init__(self, settings: CompressionSettings, model_dir: Path) -> None:
        self.settings = settings
        self._directory = model_dir / DIRECTORY
        self._turn = asyncio.Lock()
        self._model: Any = None
        self._tokenizer: Any = None
        self._window = MOST_WINDOW

    def load(self) -> None:
        """Load the small model. Raises EngineError."""
        if not (self._directory / "config.json").is_file():
            raise EngineError(
                f"prompt_share or prompt_target is set, but the version has no small model in {DIRECTORY}/"
            )
        try:
            import torch
            from transformers import AutoTokenizer

            from serving.engines.model_files import load_plain

            self._model = load_plain(self._directory, torch.float32).eval()
            self._tokenizer = AutoTokenizer.from_pretrained(
                self._directory, local_files_only=True, trust_remote_code=False
            )
        except (ImportError, OSError, ValueError) as error:
            raise EngineError(f"{DIRECTORY}/ cannot be loaded: {error}") from None
        if not self._tokenizer.is_fast:
            raise EngineError(f"the tokenizer in {DIRECTORY}/ does not tell where its tokens stand")
        limit = int(getattr(self._model.config, "max_position_embeddings", 0) or MOST_WINDOW)
        self._window = min(limit, MOST_WINDOW)

    async def applied(self, call: Call, headers: Mapping[str, str]) -> tuple[Call, dict[str, str]]:
        """Return the call with a shorter prompt, and what its answer says of that."""
        if headers.get(SWITCH, "").lower() == "off" or not self.settings.is_on:
            return call, {}
        began = time.monotonic()
        async with self._turn:
            body, before, after = await asyncio.to_thread(self._shortened, call)
        told = {
            TOKENS_HEADER: f"before={before}, after={after}",
            TIME_HEADER: f"{(time.monotonic() - began) * 1000:.1f}",
        }
        return replace(call, body=body), told

    def _shortened(self, call: Call) -> tuple[Mapping[str, Any], int, int]:
        before = after = 0

        def shorten(text: str) -> str:
            nonlocal before, after
            found = self.compress(text)
            before, after = before + found.before, after + found.after
            return found.text

        body = dict(call.body)
        if call.route is OpenAiRoute.CHAT:
            messages = body.get("messages")
            body["messages"] = (
                [_message(one, shorten) for one in messages] if isinstance(messages, list) else messages
            )
        elif isinstance(body.get("prompt"), str):
            body["prompt"] = shorten(body["prompt"])
        return body, before, after

    def compress(self, text: str) -> CompressedText:
        """Return the text without the words that say least, in their order."""
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        words = list(_WORD.finditer(text))
        if len(ids) < LEAST_TOKENS or not words:
            return CompressedText(text, len(ids), len(ids))
        information = self._information(ids)
        of_word: list[list[float]] = [[] for _ in words]
        place = 0
        for (start, end), value in zip(offsets, information, strict=True):
            # A token with a leading space belongs to the word behind it.
            middle = end - 1 if end > start else start
            while place + 1 < len(words) and middle >= words[place].end():
                place += 1
            of_word[place].append(value)
        kept = protected(text, words)
        excess = len(ids) - self.settings.wanted(len(ids))
        droppable = [one for one in range(len(words)) if one not in kept and of_word[one]]
        dropped = set()
        for one in sorted(droppable, key=lambda one: sum(of_word[one]) / len(of_word[one])):
            if excess <= 0:
                break
            dropped.add(one)
            excess -= len(of_word[one])
        shorter = text[: words[0].start()] + "".join(
            word[0] for one, word in enumerate(words) if one not in dropped
        )
        after = len(self._tokenizer(shorter, add_special_tokens=False)["input_ids"])
        return CompressedText(shorter, len(ids), after)

    def _information(self, ids: list[int]) -> list[float]:
        """Return the self-information of each token in nats, in windows that overlap by half."""
        import torch

        found = [0.0] * len(ids)
        with torch.inference_mode():
            for begin in range(0, len(ids), max(self._window // 2, 1)):
                part = torch.tensor([ids[begin : begin + self._window]])
                logits = self._model(input_ids=part).logits[0, :-1].float()
                logs = logits.log_softmax(-1).gather(1, part[0, 1:, None])[:, 0]
                # Of what the window before has read, too, that one knew more of its past.
                known = self._window // 2 if begin else 1
                found[begin + known : begin + part.shape[1]] = (-logs[known - 1 :]).tolist()
                if begin + self._window >= len(ids):
                    break
        # Nothing comes before the first one: it stays.
        return [float("inf"), *found[1:]]


def protected(text: str, words: list["re.Match[str]"]) -> set[int]:
    """Return which words stay whatever they say: those with digits, and those of JSON values."""
    spans = _json_spans(text)
    return {
        place
        for place, word in enumerate(words)
        if any(letter.isdigit() for letter in word[0])
        or any(word.start() < end and start < word.start() + len(word[0].rstrip()) for start, end in spans)
    }


def _json_spans(text: str) -> list[tuple[int, int]]:
    found, place = [], 0
    decoder = json.JSONDecoder()
    for opening in re.finditer(r"[{\[]", text):
        if opening.start() < place:
            continue
        try:
            _value, place = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue
        found.append((opening.start(), place))
    return found


def _message(message: Any, shorten: Callable[[str], str]) -> Any:
    """Return a message of a chat; those that are no user's stay as they are."""
    if not isinstance(message, dict) or message.get("role") != "user":
        return message
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": shorten(content)}
    if isinstance(content, list):
        return {**message, "content": [_part(part, shorten) for part in content]}
    return message


def _part(part: Any, shorten: Callable[[str], str]) -> Any:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return {**part, "text": shorten(part["text"])}
    return part
