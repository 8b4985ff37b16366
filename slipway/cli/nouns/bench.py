"""`slipway bench`: configurations of a deployment under load, compared."""

import csv
import io
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.bench_expressions import FailureCondition
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.files import text_of
from slipway.cli.options import Number, Reason, Timeout, WaitForEnd
from slipway.cli.waiting import until_over
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Benchmarks: configurations of a deployment under load.", no_args_is_help=True)
COLUMNS: Columns = {"ID": "id", "NAME": "name", "TEAM": "team", "STATE": "state", "CREATED": "created_at"}
CELL_COLUMNS: Columns = {
    "CELL": "id",
    "CONFIGURATION": lambda cell: configuration_of(cell),
    "VALUE": lambda cell: _number(cell.get("value")),
    "INTERVAL": lambda cell: cell.get("interval", ""),
    "RUNS": "runs",
    "REFUSED": "refusal",
}
ENDED = ("finished", "failed", "cancelled")


class ReportFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    MARKDOWN = "markdown"


class ExportFormat(StrEnum):
    CSV = "csv"
    PARQUET = "parquet"


Report = Annotated[ReportFormat, typer.Option("--output", "-o", help="Form of the result on stdout.")]
Cell = Annotated[str, typer.Argument(metavar="BENCHMARK/CELL", help="As `show` lists them: 7/31.")]


@app.command("run")
def run(
    typer_context: typer.Context,
    file: Annotated[Path, typer.Option("--file", "-f", help="YAML or JSON with the benchmark; - is stdin.")],
    wait: WaitForEnd = False,
    timeout: Timeout = 86_400,
    output: Report = ReportFormat.TEXT,
) -> None:
    """Start a benchmark. With --wait the exit status is 0 if a configuration was found."""
    context = context_of(typer_context)
    from kube.untrusted_yaml import BadYaml, load

    try:
        body = load(text_of(file, named="--file"), numbers=True)
    except BadYaml as error:
        raise CommandFailed(f"{file} cannot be read: {error}.", Exit.USAGE) from None
    if not isinstance(body, Mapping):
        raise CommandFailed(
            f"{file} is not a benchmark: give an object with name, team, cluster and spec.", Exit.USAGE
        )
    row = context.client.create(at("benchmarks"), dict(body))
    context.progress.print(
        f"Benchmark {row['id']}: {context.client.url}/benchmarks/{row['id']}/", markup=False
    )
    address = at("benchmarks", row["id"])
    if wait:
        row = until_over(context, row, address, is_open=_is_open, timeout=timeout)
    _report(context, context.client.get(address), output)
    if wait and row["state"] != "finished":
        raise typer.Exit(Exit.FAILED)


@app.command("list")
def list_benchmarks(typer_context: typer.Context) -> None:
    """List benchmarks."""
    context_of(typer_context).each(at("benchmarks"), COLUMNS)


@app.command("show")
def show(typer_context: typer.Context, number: Number, output: Report = ReportFormat.TEXT) -> None:
    """Show configurations with their figures, and which one to use."""
    context = context_of(typer_context)
    _report(context, context.client.get(at("benchmarks", number)), output)


@app.command("cancel")
def cancel(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Stop a benchmark and remove all that it runs."""
    context = context_of(typer_context)
    row = context.client.create(at("benchmarks", number, "cancel"), {"reason": reason})
    context.tell(row, f"{row['name']} is {row['state']}.")


@app.command("compare")
def compare(
    typer_context: typer.Context,
    ours: Cell,
    theirs: Cell,
    fail_if: Annotated[
        list[str] | None,
        typer.Option("--fail-if", help="Exit 1 if this holds: 'ttft_p95 > 1.05' is 5 % slower. Repeatable."),
    ] = None,
) -> None:
    """Compare two configurations of a benchmark: the first one's figures over the second's."""
    context = context_of(typer_context)
    (benchmark, one), (other_benchmark, other) = (_cell(given) for given in (ours, theirs))
    if benchmark != other_benchmark:
        raise CommandFailed(
            "Only cells of one benchmark can be compared: others ran under other conditions.", Exit.USAGE
        )
    conditions = [FailureCondition.read(text) for text in fail_if or ()]
    found = context.client.get(at("benchmarks", benchmark, "compare", one, other))
    context.show(found)
    context.tabulate(
        found["figures"],
        {
            "FIGURE": "name",
            "RATE": "rate",
            "RATIO": lambda row: f"{row['ratio']:.3f}",
            "95 % INTERVAL": _interval,
            "VERDICT": "verdict",
        },
    )
    for condition in conditions:
        if met := condition.met(found["figures"]):
            raise CommandFailed(f"{condition}: {met}", Exit.FAILED)


@app.command("export")
def export(
    typer_context: typer.Context,
    number: Number,
    file_format: Annotated[
        ExportFormat, typer.Option("--format", help="Form of the table.")
    ] = ExportFormat.CSV,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File; without it: stdout.")] = None,
) -> None:
    """Write the figures of all configurations as a table: a row for each figure at each rate."""
    context = context_of(typer_context)
    columns, rows = _table(context.client.get(at("benchmarks", number))["result"])
    written = _csv(columns, rows) if file_format is ExportFormat.CSV else _parquet(columns, rows)
    if out is None:
        sys.stdout.buffer.write(written)
        return
    try:
        out.write_bytes(written)
    except OSError as error:
        raise CommandFailed(f"{out} cannot be written: {error.strerror}.", Exit.USAGE) from None
    context.progress.print(f"{len(rows):,} rows in {out}", markup=False)


_FIXED = ("cell", "version", "engine", "machine")
_FIGURE = ("rate", "name", "unit", "value", "low", "high", "samples")


def _table(result: Document) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of all figures; parameters stand between."""
    names = sorted({name for cell in result["cells"] for name in cell["parameters"]})
    rows = [
        [cell["id"], *map(cell.get, _FIXED[1:]), *map(cell["parameters"].get, names), *map(one.get, _FIGURE)]
        for cell in result["cells"]
        for one in cell["figures"]
    ]
    return [*_FIXED, *names, *_FIGURE], rows


def _csv(columns: list[str], rows: list[list[Any]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows([columns, *rows])
    return out.getvalue().encode()


def _parquet(columns: list[str], rows: list[list[Any]]) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise CommandFailed(
            "Parquet needs pyarrow: pip install 'slipway[parquet]', or take --format csv.", Exit.USAGE
        ) from None
    measures = dict.fromkeys(("rate", "value", "low", "high"), pyarrow.float64())
    kinds = {**measures, "cell": pyarrow.int64(), "samples": pyarrow.int64()}
    # A parameter may be a number here and a text there.
    arrays = {
        name: pyarrow.array(
            [value if value is None or name in kinds else str(value) for value in values],
            kinds.get(name, pyarrow.string()),
        )
        for name, *values in zip(columns, *rows, strict=True)
    }
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), out)
    return out.getvalue()


def _is_open(row: Document) -> bool:
    return row["state"] not in ENDED


def configuration_of(cell: Document) -> str:
    parameters = " ".join(f"{name}={value}" for name, value in cell["parameters"].items())
    return " ".join(one for one in (cell["version"], cell["engine"], cell["machine"], parameters) if one)


def _cell(given: str) -> tuple[int, int]:
    benchmark, _slash, cell = given.partition("/")
    if not (benchmark.isdigit() and cell.isdigit()):
        raise CommandFailed(f"{given!r} is not a cell: give BENCHMARK/CELL, such as 7/31.", Exit.USAGE)
    return int(benchmark), int(cell)


def _report(context: CliContext, row: Document, output: ReportFormat) -> None:
    cells = [_with_value(cell, row["result"]["conclusion"]) for cell in row["result"]["cells"]]
    if output is ReportFormat.JSON or (output is ReportFormat.TEXT and context.output.value == "json"):
        import orjson

        sys.stdout.write(orjson.dumps(row, option=orjson.OPT_INDENT_2).decode() + "\n")
    elif output is ReportFormat.JUNIT:
        sys.stdout.write(_junit(row, cells))
    elif output is ReportFormat.MARKDOWN:
        sys.stdout.write(_markdown(row, cells))
    else:
        context.tabulate(cells, CELL_COLUMNS)
        context.say(_summary(row, cells))


def _with_value(cell: Document, conclusion: Document) -> Document:
    """Return the cell with the objective's value and its interval, where it has a valid run."""
    found = next((one for one in conclusion.get("cells", ()) if one["cell"] == cell["id"]), None)
    if found is None:
        return cell
    value = found["value"]
    return {**cell, "value": value["value"], "interval": _interval(value)}


def _summary(row: Document, cells: list[Document]) -> str:
    conclusion = row["result"]["conclusion"]
    best = next((cell for cell in cells if cell["id"] == conclusion.get("best")), None)
    if best is None:
        return f"{row['name']} is {row['state']}. {row['reason']}".strip()
    return f"{row['name']}: use {configuration_of(best)} ({conclusion['verdict']})."


def _junit(row: Document, cells: list[Document]) -> str:
    """Return a test case for each configuration; those without a valid run have failed."""
    suite = ElementTree.Element("testsuite", name=row["name"], tests=str(len(cells)))
    failures = 0
    for cell in cells:
        case = ElementTree.SubElement(suite, "testcase", classname=row["name"], name=configuration_of(cell))
        if cell["refusal"]:
            ElementTree.SubElement(case, "skipped", message=cell["refusal"])
        elif "value" not in cell:
            failures += 1
            ElementTree.SubElement(case, "failure", message=_failure_of(cell, row) or "no valid run")
        else:
            ElementTree.SubElement(case, "system-out").text = f"{cell['value']:.6g} ({cell['interval']})"
    suite.set("failures", str(failures))
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def _failure_of(cell: Document, row: Document) -> str:
    """Return the reasons and broken rules of all runs of the cell."""
    runs = [run for run in row["result"]["runs"] if run["cell"] == cell["id"]]
    said = {run["reason"] for run in runs} | {one["said"] for run in runs for one in run["violations"]}
    return " ".join(sorted(filter(None, said)))


def _markdown(row: Document, cells: list[Document]) -> str:
    lines = [
        f"## {row['name']}",
        "",
        _summary(row, cells),
        "",
        "| cell | configuration | value | 95 % interval |",
        "|---|---|---|---|",
    ]
    for cell in cells:
        value = _number(cell.get("value")) or cell["refusal"] or "no valid run"
        shown = (str(cell["id"]), configuration_of(cell), value, cell.get("interval", ""))
        lines.append(f"| {' | '.join(one.replace('|', '/') for one in shown)} |")
    return "\n".join(lines) + "\n"


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"


def _interval(row: Document) -> str:
    return "" if row["low"] is None else f"{row['low']:.4g} to {row['high']:.4g}"
