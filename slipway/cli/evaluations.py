"""`slipway models evaluate`, `metrics` and `compare`: metrics of versions, and how two versions differ."""

import json
import math
from typing import Annotated, Any

import typer

from slipway.cli.context import CliContext, Columns, context_of, size
from slipway.cli.names import split_version
from slipway.cli.options import Reason, VersionLabel
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

HISTORY_COLUMNS: Columns = {
    "AT": "at",
    "METRIC": "name",
    "DATASET": "dataset",
    "VALUE": lambda row: "removed" if row["value"] is None else _value(row),
    "BY": "by",
}
METRIC_COLUMNS: Columns = {
    "METRIC": "name",
    "DATASET": "dataset",
    "VALUE": lambda row: _value(row),
    "SOURCE": lambda row: row["by"] or "model card",
    "AT": "at",
}


def evaluate(
    typer_context: typer.Context,
    version: VersionLabel,
    figure: Annotated[
        list[str],
        typer.Option(
            "--metric",
            "--figure",
            "-m",
            "-f",
            metavar="NAME=VALUE",
            help="Such as accuracy=0.71; repeatable.",
        ),
    ],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="Dataset they were measured on.")] = "",
    unit: Annotated[str | None, typer.Option("--unit", help="Such as % or ms.")] = None,
    higher_is_better: Annotated[
        bool | None,
        typer.Option("--higher-is-better/--lower-is-better", help="Default: as recorded before."),
    ] = None,
    link: Annotated[str | None, typer.Option("--link", help="URL of the evaluation run.")] = None,
    reason: Reason = "",
) -> None:
    """Add metrics to a version; NAME= without a value removes the metric."""
    context = context_of(typer_context)
    model, name = split_version(version)
    told = {"unit": unit, "higher_is_better": higher_is_better, "link": link}
    shared = {"dataset": dataset} | {key: value for key, value in told.items() if value is not None}
    body = {"figures": [_figure(one) | shared for one in figure], "reason": reason}
    _say(context, context.client.put(at("models", model, "versions", name, "evaluations"), body))


def metrics(
    typer_context: typer.Context,
    version: VersionLabel,
    history: Annotated[
        bool, typer.Option("--history", help="Every value ever recorded, newest first.")
    ] = False,
) -> None:
    """Show the metrics of a version: those recorded, and those of its model card."""
    context = context_of(typer_context)
    model, name = split_version(version)
    if history:
        rows = list(context.client.each(at("models", model, "versions", name, "evaluations", "history")))
        context.rows(rows, HISTORY_COLUMNS)
        return
    _say(context, context.client.get(at("models", model, "versions", name, "evaluations")))


def compare(
    typer_context: typer.Context,
    version: VersionLabel,
    other: Annotated[str, typer.Argument(help="Another version of the model.")],
) -> None:
    """Compare two versions: files, configuration, tokenizer, model card and metrics."""
    context = context_of(typer_context)
    model, name = split_version(version)
    other = other.removeprefix(f"{model}:")
    found = context.client.get(at("models", model, "versions", name, "compare", other))
    context.show(found)
    kinds = found["bytes"].items()
    context.say(", ".join(f"{size(count)} {kind}" for kind, count in kinds if count) or "No files")
    files = [file for file in found["files"] if file["change"] != "same"]
    context.table(("FILE", "", name, other), (_file(file) for file in files))
    keys = [*found["config"], *found["facts"]]
    context.table(("KEY", "", name, other), map(_key, keys))
    tokenizer = found["tokenizer"]
    context.say(f"Tokenizer {tokenizer['change']}, chat template {tokenizer['chat_template']}")
    context.table(("METRIC", "DATASET", name, other, "DIFFERENCE"), map(_difference, found["figures"]))
    context.say(f"Model card {found['card']['change']}")
    for line in found["card"]["lines"]:
        context.say(line)


def _figure(text: str) -> dict[str, Any]:
    name, equals, number = text.rpartition("=")
    try:
        value = float(number) if number else None
    except ValueError:
        value = math.nan
    if not (name and equals) or (value is not None and not math.isfinite(value)):
        raise CommandFailed(
            f"--metric '{text}' is not of the form NAME=VALUE, such as accuracy=0.71.", Exit.USAGE
        )
    return {"name": name, "value": value}


def _say(context: CliContext, found: Document) -> None:
    context.show(found)
    context.tabulate(found["figures"], METRIC_COLUMNS)


def _file(file: Document) -> tuple[Any, ...]:
    return file["path"], file["change"], size(file["size_before"]), size(file["size_after"])


def _key(one: Document) -> tuple[str, ...]:
    """A key that is null is not one that is missing."""
    before = "" if one["change"] == "added" else json.dumps(one["before"], ensure_ascii=False)
    after = "" if one["change"] == "removed" else json.dumps(one["after"], ensure_ascii=False)
    return one["key"], one["change"], before, after


def _difference(one: Document) -> tuple[Any, ...]:
    verdict = {True: " better", False: " worse", None: ""}[one["better"]]
    told = "" if one["difference"] is None else f"{one['difference']:+g}{verdict}"
    return one["name"], one["dataset"], _value(one["before"]), _value(one["after"]), told


def _value(figure: Document | None) -> str:
    return f"{figure['value']:g} {figure['unit']}".rstrip() if figure else ""
