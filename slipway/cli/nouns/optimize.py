"""`slipway optimize`: optimised versions, judged against their parents."""

from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.files import text_of
from slipway.cli.options import Number, Reason, Timeout, VersionLabel, WaitForEnd
from slipway.cli.waiting import until_over
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Optimised versions: a recipe in, a judged version out.", no_args_is_help=True)
COLUMNS: Columns = {
    "ID": "id",
    "NAME": "name",
    "PARENT": "parent",
    "RECIPE": "recipe",
    "STATE": "state",
    "CHILD": "child",
    "CREATED": "created_at",
}
ENDED = {
    "passed": Exit.DONE,
    "failed": Exit.FAILED,
    "cancelled": Exit.FAILED,
    "rejected": Exit.REJECTED,
    "needs_items": Exit.FAILED,
}
"""Exit statuses of --wait."""


@app.command("recipes")
def recipes(typer_context: typer.Context) -> None:
    """List the recipes that can be started."""
    context = context_of(typer_context)
    found = context.client.get(at("optimizations", "recipes"))
    context.show(found)
    context.tabulate(
        found["recipes"],
        {
            "RECIPE": "name",
            "TITLE": "title",
            "PARAMETERS": lambda row: ", ".join(
                f"{one['name']}={one['default']}" for one in row["parameters"]
            ),
            "NEEDS": lambda row: ", ".join(
                name for name in ("calibration", "gpu") if row.get(f"needs_{name}")
            ),
            "ENGINES": lambda row: ", ".join(row["engines"]),
        },
    )


@app.command("list")
def list_runs(typer_context: typer.Context) -> None:
    """List runs of recipes."""
    context_of(typer_context).each(at("optimizations"), COLUMNS)


@app.command("start")
def start(
    typer_context: typer.Context,
    parent: VersionLabel,
    recipe: Annotated[list[str], typer.Option("--recipe", help="FAMILY/NAME; repeatable: one run each.")],
    test: Annotated[str, typer.Option("--test", help="Test set: MODEL:VERSION/PATH.")],
    cluster: Annotated[
        str, typer.Option("--cluster", help="Where parent and child are benchmarked.")
    ] = "local",
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", help="NAME=VALUE of the recipes that have it; repeatable."),
    ] = None,
    calibration: Annotated[str, typer.Option("--calibration", help="Calibration set, likewise.")] = "",
    margin: Annotated[
        float, typer.Option("--margin", help="Accepted loss: points of accuracy, percent of perplexity.")
    ] = 1.0,
    gain: Annotated[
        float, typer.Option("--gain", help="Demanded speed as a multiple of the parent's.")
    ] = 1.0,
    scenario: Annotated[
        Path | None, typer.Option("--scenario", help="YAML or JSON with the load; - is stdin.")
    ] = None,
    load_of: Annotated[
        str, typer.Option("--load-of", help="Service whose load of the last seven days is taken instead.")
    ] = "",
    compare_batching: Annotated[
        bool, typer.Option("--compare-batching", help="Measure static batching, too.")
    ] = False,
    place: Annotated[
        str, typer.Option("--place", help="Where its jobs run: local, or cluster for Jobs of the cluster.")
    ] = "local",
    gpus: Annotated[int, typer.Option("--gpus", min=0, help="GPUs of the recipe's Job.")] = 0,
    budget_hours: Annotated[
        float | None,
        typer.Option("--budget-hours", help="Of all recipes, which then take turns within it."),
    ] = None,
    budget_cost: Annotated[
        float | None,
        typer.Option("--budget-cost", help="Likewise, of their GPUs, in the prices' currency."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    wait: WaitForEnd = False,
    timeout: Timeout = 86_400,
) -> None:
    """Make a version by a recipe and judge it. With --wait the exit status is 0 if all passed."""
    context = context_of(typer_context)
    model = context.client.get(at("models", parent.partition(":")[0]))
    body: dict[str, Any] = {
        "team": model["team"],
        "parent": parent,
        "test": test,
        "cluster": cluster,
        "calibration": calibration,
        "margin": margin,
        "gain": gain,
        "seed": seed,
        "place": place,
        "gpus": gpus,
        "parameters": dict(_parameter(one) for one in parameter or ()),
    }
    if compare_batching:
        body["compare_batching"] = True
    if load_of:
        body["load_of"] = load_of
    if scenario is not None:
        body["scenario"] = _scenario(scenario)
    budget = {"budget_hours": budget_hours, "budget_cost": budget_cost}
    if len(recipe) > 1 or any(limit is not None for limit in budget.values()):
        order = {**body, **budget, "recipes": recipe}
        rows = context.client.create(at("optimizations", "batch"), order)["runs"]
    else:
        rows = [context.client.create(at("optimizations"), {**body, "recipe": recipe[0]})]
    for row in rows:
        context.progress.print(
            f"{row['name']}: {context.client.url}/optimizations/{row['id']}/", markup=False
        )
    if wait:
        rows = [
            until_over(
                context, row, at("optimizations", row["id"]),
                is_open=lambda seen: seen["state"] not in ENDED, timeout=timeout,
            )
            for row in rows
        ]  # fmt: skip
    rows = [context.client.get(at("optimizations", row["id"])) for row in rows]
    context.show(rows[0] if len(rows) == 1 else rows)
    for row in rows:
        _say(context, row)
    if len(rows) > 1:
        _say_family(context, rows[-1])
    if wait and (worst := max(ENDED[row["state"]] for row in rows)):
        raise typer.Exit(worst)


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show a run with accuracy and speed against its parent."""
    context = context_of(typer_context)
    row = context.client.get(at("optimizations", number))
    context.show(row)
    _say(context, row)
    if batch := row["result"]["batch"]:
        used, budget = batch["used"], batch["budget"] or {}
        limits = " or ".join(
            f"{budget[kind]:g} {unit}".strip()
            for kind, unit in (("hours", "h"), ("cost", ""))
            if budget.get(kind) is not None
        )
        of = f" of {limits}" if limits else ""
        context.say(f"{batch['name']}: {used['hours']:.2f} h, cost {used['cost']:.2f}{of}")
    _say_family(context, row)


@app.command("cancel")
def cancel(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Stop a run; a version that is ready stays."""
    context = context_of(typer_context)
    row = context.client.create(at("optimizations", number, "cancel"), {"reason": reason})
    context.tell(row, f"{row['name']} is {row['state']}.")


def _parameter(given: str) -> tuple[str, Any]:
    name, equals, value = given.partition("=")
    if not (name and equals):
        raise CommandFailed(f"{given!r} is not NAME=VALUE.", Exit.USAGE)
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


def _scenario(file: Path) -> dict[str, Any]:
    from kube.untrusted_yaml import BadYaml, load

    try:
        found = load(text_of(file, named="--scenario"), numbers=True)
    except BadYaml as error:
        raise CommandFailed(f"{file} cannot be read: {error}.", Exit.USAGE) from None
    if not isinstance(found, dict):
        raise CommandFailed(f"{file} is not a scenario: give an object.", Exit.USAGE)
    return found


def _say_family(context: CliContext, row: Document) -> None:
    """Print the versions that descend from the same one, the best of accuracy and cost marked."""
    context.tabulate(
        row["result"]["family"],
        {
            "VERSION": "version",
            "RECIPE": "recipe",
            "METRIC": "metric",
            "VALUE": lambda one: "" if one["value"] is None else f"{one['value']:.4g}",
            "COST": lambda one: "" if one["cost"] is None else f"{one['cost']:.2f}",
            "BEST": lambda one: "yes" if one["is_best"] else "",
        },
    )


def _say(context: CliContext, row: Document) -> None:
    context.say(f"{row['name']}: {row['child'] or row['parent']} is {row['state']}. {row['reason']}".strip())
    accuracy = row["result"]["accuracy"]
    for one in accuracy["verdicts"] if accuracy else ():
        context.say(
            f"  {one['metric']}: {one['child']:.4g} (parent {one['parent']:.4g}), "
            f"{one['difference']:+.2f} % ({one['low']:+.2f} to {one['high']:+.2f}), "
            f"margin {one['margin']:g}: {one['result']}"
        )
    for one in row["result"]["speed"]:
        interval = "" if one["low"] is None else f" ({one['low']:.2f} to {one['high']:.2f})"
        other = "that of static batching" if one.get("compared_with") == "static" else "the parent's"
        context.say(f"  {one['name']} at {one['rate']:g}: {one['ratio']:.2f} times {other}{interval}")
