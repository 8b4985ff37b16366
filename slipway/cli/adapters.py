"""`slipway service adapter`: LoRA adapters that a service's workers load while they run."""

from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import Columns, context_of
from slipway.cli.options import Reason, Timeout, VersionLabel, WaitForEnd
from slipway.cli.waiting import POLL_SECONDS, WaitDeadline, patiently
from slipway.client import at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="LoRA adapters of a service's running workers.", no_args_is_help=True)
COLUMNS: Columns = {
    "NAME": "name",
    "VERSION": "version",
    "LOADED": lambda row: f"{row['loaded']}/{row['workers']}",
    "BY": "loaded_by",
    "PROBLEM": "problem",
}
Name = Annotated[str, typer.Argument(help="What requests give as their model.")]


@app.command("list")
def list_adapters(typer_context: typer.Context, service: str) -> None:
    """List the adapters of a service, and how many workers have loaded each."""
    context = context_of(typer_context)
    context.rows(context.client.get(at("services", service, "adapters"))["results"], COLUMNS)


@app.command("load")
def load(
    typer_context: typer.Context,
    service: str,
    name: Name,
    version: VersionLabel,
    reason: Reason = "",
    wait: WaitForEnd = False,
    timeout: Timeout = 120.0,
) -> None:
    """Load an adapter into the running workers; workers that restart load it again."""
    context = context_of(typer_context)
    place = at("services", service, "adapters")
    row = context.client.put(
        at("services", service, "adapters", name), {"version": version, "reason": reason}
    )
    deadline, sleep = WaitDeadline(timeout), context.outside.sleep
    while wait and not row["problem"] and not 0 < row["workers"] == row["loaded"]:
        if deadline.is_over:
            context.show(row)
            raise CommandFailed("Timed out waiting; it continues on the server.", Exit.TIMED_OUT)
        sleep(POLL_SECONDS)
        rows = patiently(lambda: context.client.get(place)["results"], deadline, sleep=sleep)
        if (found := next((one for one in rows if one["name"] == name), None)) is None:
            raise CommandFailed(f"Somebody unloaded {name} meanwhile.", Exit.FAILED)
        row = found
    if row["problem"]:
        context.show(row)
        raise CommandFailed(f"A worker refused {name}: {row['problem']}", Exit.FAILED)
    done = "is loaded" if wait else "is being loaded"
    context.tell(row, f"{name} {done}; requests to {service} name it as their model")


@app.command("unload")
@confirmed("Unload adapter {name} from all workers of {service}?")
def unload(typer_context: typer.Context, service: str, name: Name, reason: Reason = "") -> None:
    """Unload an adapter; requests that run are answered to their end."""
    context = context_of(typer_context)
    context.client.delete(at("services", service, "adapters", name), reason=reason)
    context.tell({"service": service, "name": name}, f"{name} is being unloaded")
