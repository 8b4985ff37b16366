"""`slipway gpu drill`: simulated faults on machines of test clusters and their remediation."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.options import Number, Reason, Timeout
from slipway.cli.waiting import until_over
from slipway.client import Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="Drills: simulated faults on machines of test clusters.", no_args_is_help=True)

DRILLS = at("gpu-health", "drills")
ENDED = ("passed", "failed", "cancelled")
COLUMNS: Columns = {
    "DRILL": "id",
    "SCENARIO": "scenario",
    "NODE": "node",
    "CLUSTER": "cluster",
    "ACTS": lambda row: "yes" if row["acts"] else "dry run",
    "STATE": "state",
    "FOUND AFTER": lambda row: _seconds(row["report"]["detected_seconds"]),
    "BACK AFTER": lambda row: _seconds(row["report"]["repaired_seconds"]),
    "WHY": "why",
}
SCENARIO_COLUMNS: Columns = {
    "SCENARIO": "name",
    "WHAT": "title",
    "BY": lambda row: ", ".join(row["ways"]),
    "RULES SAY": lambda row: f"{row['expected']['outcome']}: {' > '.join(row['expected']['ladder'])}",
}
STEP_COLUMNS: Columns = {
    "STEP": "name",
    "AFTER": lambda row: _seconds(row["seconds"]),
    "WHAT": "words",
}
VERDICT_COLUMNS: Columns = {"": "what", "RULES SAY": "expected", "FOUND": "found"}
Cluster = Annotated[str, typer.Option("--cluster", help="Cluster of the machine, if ambiguous.")]


@app.command("run")
@confirmed(lambda _, given: f"Quarantine and drain {given['node']}?" if given["acts"] else "")
def run(
    typer_context: typer.Context,
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Name from `scenarios`.")],
    node: Annotated[str, typer.Option("--node", help="Name of the machine.")],
    cluster: Cluster = "",
    acts: Annotated[
        bool,
        typer.Option("--act", help="Quarantine, drain and return the machine; repairs are simulated."),
    ] = False,
    way: Annotated[
        str, typer.Option("--by", help="Source that tells of it: agent, condition, provider, check.")
    ] = "",
    gpus: Annotated[int, typer.Option("--gpus", min=1, max=16, help="Simulated GPUs of the machine.")] = 8,
    gpu: Annotated[int, typer.Option("--gpu", min=0, max=15, help="Index of the faulty GPU.")] = 0,
    reason: Reason = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end.")] = True,
    timeout: Timeout = 3_600,
) -> None:
    """Simulate a fault on a machine of a test cluster and follow its remediation. Dry run unless --act."""
    context = context_of(typer_context)
    body: dict[str, object] = {"scenario": scenario, "node": node, "acts": acts, "reason": reason}
    body |= {"gpus": gpus, "gpu": gpu} | ({"cluster": cluster} if cluster else {})
    body |= {"way": way} if way else {}
    ordered = context.client.create(DRILLS, body)
    if wait:
        one = DRILLS.below(ordered["id"])
        ordered = until_over(
            context, ordered, one, is_open=lambda now: now["state"] not in ENDED, timeout=timeout
        )
    _show(context, ordered)
    if wait and ordered["state"] != "passed":
        raise CommandFailed(f"Drill {ordered['id']} of {node}: {ordered['state']}.", Exit.FAILED)


@app.command("list")
def list_drills(
    typer_context: typer.Context,
    node: Annotated[str, typer.Option("--node", help="Only of this machine.")] = "",
    state: Annotated[str, typer.Option("--state", help="Only in this state, such as failed.")] = "",
) -> None:
    """List the drills, the last first."""
    context_of(typer_context).each(DRILLS, COLUMNS, node=node, state=state)


@app.command("scenarios")
def list_scenarios(typer_context: typer.Context) -> None:
    """List the scenarios of drills and the rules that judge them."""
    context = context_of(typer_context)
    context.rows(context.client.get(DRILLS.below("scenarios"))["results"], SCENARIO_COLUMNS)


@app.command("show")
def show(typer_context: typer.Context, number: Number) -> None:
    """Show how a drill went: what was seen when, and whether it was judged as the rules say."""
    context = context_of(typer_context)
    _show(context, context.client.get(DRILLS.below(number)))


@app.command("cancel")
def cancel(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
    """Withdraw the fault, and bring the machine back."""
    context = context_of(typer_context)
    _show(context, context.client.post(DRILLS.below(number, "cancel"), {"reason": reason}))


@app.command("mark")
def mark(
    typer_context: typer.Context,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Name from `cluster list`.")],
    is_test: Annotated[bool, typer.Option("--test/--no-test", help="Faults may be played there.")] = True,
    reason: Reason = "",
) -> None:
    """Mark a cluster as a test cluster, or take the mark away."""
    context = context_of(typer_context)
    body = {"cluster": cluster, "is_test": is_test, "reason": reason}
    found = context.client.post(DRILLS.below("mark"), body)
    words = "is a test cluster" if found["is_test"] else "is no test cluster"
    context.tell(found, f"{cluster} {words}.")


def _show(context: CliContext, document: Document) -> None:
    context.show(document)
    told: dict[str, Any] = document["report"]
    context.details(
        {
            "drill": f"{document['id']}: {document['title']} on {document['node']}",
            "mode": "acts" if document["acts"] else "dry run",
            "state": document["state"],
            "why": document["why"],
            "found after": _seconds(told["detected_seconds"]),
            "out of service after": _seconds(told["quarantined_seconds"]),
            "back after": _seconds(told["repaired_seconds"]),
        }
    )
    context.tabulate(told["steps"], STEP_COLUMNS)
    verdict = told["verdict"]
    if verdict["differences"]:
        context.tabulate(verdict["differences"], VERDICT_COLUMNS)
    elif verdict["found"]:
        context.say("Judged as the rules in force say.")


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"
