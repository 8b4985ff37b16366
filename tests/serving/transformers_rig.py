"""Requests to a transformers engine of a tiny model, for tests."""

from pathlib import Path
from typing import Any

from serving.engines.base import Piece
from serving.engines.transformers import TransformersEngine, TransformersSettings
from serving.openai import Prompt, Sampling, TextPrompt, TextRequest
from tests.serving.workers import command

PROMPT = TextPrompt("Once upon a time")


def request(prompt: Prompt = PROMPT, **sampling: Any) -> TextRequest:
    defaults: dict[str, Any] = {"max_tokens": 24, "temperature": 0.0, "top_p": None, "seed": None, "stop": ()}
    return TextRequest(prompt=prompt, sampling=Sampling(**(defaults | sampling)))


def engine_of(directory: Path, **settings: Any) -> TransformersEngine:
    return TransformersEngine(
        command(model_dir=directory, device="cpu", slots=4), TransformersSettings(**settings)
    )


async def pieces(engine: TransformersEngine, asked: TextRequest) -> list[Piece]:
    return [piece async for piece in engine.generate(asked)]


async def text(engine: TransformersEngine, asked: TextRequest) -> str:
    return "".join(piece.text for piece in await pieces(engine, asked))
