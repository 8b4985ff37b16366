"""`slipway store`: usage, garbage collection and integrity checks of the model store."""

from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of, counted, size
from slipway.cli.options import Limit, Reason, Timeout, Wait
from slipway.cli.waiting import until_over
from slipway.client import ApiPath, Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="The model store; for administrators.", no_args_is_help=True)


COLLECTION_COLUMNS: Columns = {
    "ID": "id",
    "STATE": "state",
    "STARTED": "began_at",
    "BY": "asked_by",
    "DELETED": lambda row: size(row["deleted_bytes"]),
    "IN GRACE PERIOD": lambda row: size(row["waiting_bytes"]),
}
CHECK_COLUMNS: Columns = {
    "ID": "id",
    "STATE": "state",
    "STARTED": "began_at",
    "BY": "asked_by",
    "READ": lambda row: size(row["bytes_done"]),
    "CORRUPT": "damaged",
    "MISSING": "missing",
}
FINDING_COLUMNS: Columns = {
    "ID": "id",
    "STATE": "state",
    "SHA256": lambda row: row["sha256"][:12],
    "SIZE": lambda row: size(row["bytes"]),
    "VERSIONS": lambda row: " ".join(row["versions"]),
    "DETAIL": "detail",
}


@app.command("show")
def show(typer_context: typer.Context) -> None:
    """Show usage, deduplication, unreferenced bytes and corrupt files."""
    context = context_of(typer_context)
    store = context.client.get(at("store"))
    context.show(store)
    saved = f", deduplication {store['dedup_factor']:.1f}x" if store["dedup_factor"] else ""
    free = "" if store["free_bytes"] is None else f"; {size(store['free_bytes'])} free"
    context.say(f"{size(store['bytes'])} in {store['blobs']} files{saved}{free}")
    if store["cache_bytes"] is not None:
        context.say(f"{size(store['cache_bytes'])} cached on the server")
    context.say(f"{size(store['waiting_bytes'])} unreferenced; grace period {store['grace_hours']:g} h")
    context.say(f"{counted(store['open_findings'], 'file')} corrupt or missing")


@app.command("collect")
@confirmed("Delete the files that nothing references?")
def collect(
    typer_context: typer.Context,
    grace_hours: Annotated[
        int | None, typer.Option("--grace-hours", min=0, help="Grace period of unreferenced files.")
    ] = None,
    reason: Reason = "",
    wait: Wait = True,
    timeout: Timeout = 3600,
) -> None:
    """Run garbage collection: delete files unreferenced for longer than the grace period."""
    context = context_of(typer_context)
    body: dict[str, Any] = {"reason": reason}
    body |= {"grace_hours": grace_hours} if grace_hours is not None else {}
    row = _run(context, at("store", "collections"), body, wait=wait, timeout=timeout)
    context.say(f"Garbage collection {row['id']} {row['state']}: {_collected(row)}")


@app.command("collections")
def collections(typer_context: typer.Context, limit: Limit = 20) -> None:
    """List garbage collections, newest first."""
    context = context_of(typer_context)
    rows = _newest(context, at("store", "collections"), limit)
    context.tabulate(rows, COLLECTION_COLUMNS)


@app.command("check")
def check(
    typer_context: typer.Context, reason: Reason = "", wait: Wait = True, timeout: Timeout = 86_400
) -> None:
    """Verify the integrity of every file; exit 1 if any is corrupt or missing."""
    context = context_of(typer_context)
    row = _run(context, at("store", "checks"), {"reason": reason}, wait=wait, timeout=timeout)
    told = f"Integrity check {row['id']} {row['state']}: {_checked(row)}"
    if row["damaged"] or row["missing"]:
        raise CommandFailed(told, Exit.FAILED)
    context.say(told)


@app.command("checks")
def checks(typer_context: typer.Context, limit: Limit = 20) -> None:
    """List integrity checks, newest first."""
    context = context_of(typer_context)
    rows = _newest(context, at("store", "checks"), limit)
    context.tabulate(rows, CHECK_COLUMNS)


@app.command("findings")
def findings(
    typer_context: typer.Context,
    state: Annotated[str, typer.Option("--state", help="Only in this state, such as lost.")] = "",
) -> None:
    """List corrupt and missing files, and the versions that reference them."""
    context = context_of(typer_context)
    context.each(at("store", "findings"), FINDING_COLUMNS, state=state)


@app.command("repair")
def repair(typer_context: typer.Context, finding: int, reason: Reason = "") -> None:
    """Retry the repair of a lost file from its sources."""
    context = context_of(typer_context)
    row = context.client.post(at("store", "findings", finding, "retry"), {"reason": reason})
    context.tell(row, f"Finding {row['id']} {row['state']}")


def _run(context: CliContext, address: ApiPath, body: Document, *, wait: bool, timeout: float) -> Document:
    row = context.client.create(address, body)
    if wait:
        one = address.below(row["id"])
        row = until_over(context, row, one, is_open=lambda row: row["ended_at"] is None, timeout=timeout)
    context.show(row)
    return row


def _newest(context: CliContext, address: ApiPath, limit: int) -> list[Document]:
    rows: list[Document] = context.client.get(address, limit=limit)["results"]
    context.show(rows)
    return rows


def _collected(row: Document) -> str:
    return f"deleted {counted(row['deleted_blobs'], 'file')}, {size(row['deleted_bytes'])}"


def _checked(row: Document) -> str:
    return f"{row['blobs_done']} files read, {row['damaged']} corrupt, {row['missing']} missing"
