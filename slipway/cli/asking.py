"""`slipway service ask`: a request to a version of a service, whose answer is printed while it comes."""

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.context import CliContext, OutputFormat, context_of
from slipway.cli.pods import read_json
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

CHAT = "/v1/chat/completions"


class AskedSide(StrEnum):
    STABLE = "stable"
    CANDIDATE = "candidate"


class RequestMethod(StrEnum):
    POST = "POST"
    GET = "GET"


def ask(
    typer_context: typer.Context,
    name: str,
    message: Annotated[str, typer.Argument(help="Message of a chat; else --body, or --method GET.")] = "",
    side: Annotated[
        list[AskedSide] | None, typer.Option("--side", help="Version to ask; repeatable; default: stable.")
    ] = None,
    path: Annotated[str, typer.Option("--path", help="Path at the worker.")] = CHAT,
    method: Annotated[RequestMethod, typer.Option("--method")] = RequestMethod.POST,
    body: Annotated[Path | None, typer.Option("--body", help="JSON file with the whole request.")] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Of an answer to a message.")] = 64,
) -> None:
    """Ask a worker of stable or the candidate, past the gateway; the answer is printed while it comes.

    Limits of keys do not hold there, and no release is judged by it.
    """
    context = context_of(typer_context)
    request: dict[str, Any] = {}
    if body is not None:
        request = read_json(body, "--body")
    elif message:
        messages = [{"role": "user", "content": message}]
        request = {"model": name, "messages": messages, "max_tokens": max_tokens, "stream": True}
        request["stream_options"] = {"include_usage": True}
    elif method is RequestMethod.POST:
        raise CommandFailed("Give a message, or a request by --body FILE.", Exit.USAGE)
    sides = side or [AskedSide.STABLE]
    asked = {"path": path, "method": method.value, "body": request}
    answers = [_ask(context, name, asked | {"side": one.value}, heads=len(sides) > 1) for one in sides]
    context.show(answers if len(answers) > 1 else answers[0])
    if any(answer["problem"] or answer["status"] >= 400 for answer in answers):
        raise typer.Exit(Exit.FAILED)


def _ask(context: CliContext, name: str, asked: Mapping[str, Any], *, heads: bool) -> Document:
    """Print the answer of one side, and return it."""
    found: Document = {"side": asked["side"], "status": 0, "text": ""}
    prints = context.output is OutputFormat.TEXT
    for event, data in context.client.follow(at("services", name, "ask"), asked):
        if event == "answer":
            found["status"] = data["status"]
            if heads and prints:
                context.print_line(f"{asked['side']}:")
        elif event == "text":
            found.setdefault("first_milliseconds", data["milliseconds"])
            found["text"] += data["text"]
            if prints:
                context.print_part(data["text"])
        else:
            found |= data
    if "milliseconds" not in found:
        raise CommandFailed(f"The answer of {asked['side']} broke off before its end.", Exit.FAILED)
    if prints:
        sys.stdout.write("\n")
        rate = f", {found['completion_tokens']} tokens" if found.get("completion_tokens") else ""
        context.progress.print(
            f"HTTP {found['status']} after {found['milliseconds'] / 1000:.2f} s{rate}", markup=False
        )
        if found["problem"]:
            context.progress.print(found["problem"], markup=False)
    return found
