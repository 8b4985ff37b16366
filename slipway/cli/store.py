"""`slipway store`: what it holds, collections of what nobody needs, and checks of what it holds."""

from typing import Annotated, Any

import typer

from slipway.cli.context import Context, context_of, counted, size
from slipway.cli.options import Limit, Reason, Timeout, Wait
from slipway.cli.waiting import until_over
from slipway.client import Address, Document, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer(help="The store of all models' files, for administrators.", no_args_is_help=True)


@app.command("show")
def show(typer_context: typer.Context) -> None:
    """Bytes, what deduplication saves, and what was last collected and checked."""
    context = context_of(typer_context)
    store = context.client.get(at("store"))
    context.show(store)
    saved = f", {store['dedup_factor']:.1f} x shared" if store["dedup_factor"] else ""
    free = "" if store["free_bytes"] is None else f"; {size(store['free_bytes'])} free"
    context.say(f"{size(store['bytes'])} in {store['blobs']} files{saved}{free}")
    if store["cache_bytes"] is not None:
        context.say(f"{size(store['cache_bytes'])} are on the server's own node")
    context.say(
        f"{size(store['waiting_bytes'])} are needed by nothing and go {store['grace_hours']:g} h later"
    )
    damaged = store["open_findings"]
    context.say(f"{damaged} {'file is' if damaged == 1 else 'files are'} damaged or missing")


@app.command("collect")
def collect(
    typer_context: typer.Context,
    grace_hours: Annotated[
        int | None, typer.Option("--grace-hours", min=0, help="Needed by nothing for so long.")
    ] = None,
    reason: Reason = "",
    wait: Wait = True,
    timeout: Timeout = 3600,
) -> None:
    """Delete what no version has needed for the grace time."""
    context = context_of(typer_context)
    body: dict[str, Any] = {"reason": context.asked_for(reason)}
    body |= {"grace_hours": grace_hours} if grace_hours is not None else {}
    row = _run(context, at("store", "collections"), body, wait=wait, timeout=timeout)
    context.say(f"Collection {row['id']} {row['state']}: {_collected(row)}")


@app.command("collections")
def collections(typer_context: typer.Context, limit: Limit = 20) -> None:
    """Collections, newest first."""
    context = context_of(typer_context)
    rows = _newest(context, at("store", "collections"), limit)
    context.table(
        ("ID", "STATE", "BEGAN", "BY", "DELETED", "WAITING"),
        (
            (
                r["id"],
                r["state"],
                r["began_at"],
                r["asked_by"],
                size(r["deleted_bytes"]),
                size(r["waiting_bytes"]),
            )
            for r in rows
        ),
    )


@app.command("check")
def check(
    typer_context: typer.Context, reason: Reason = "", wait: Wait = True, timeout: Timeout = 86_400
) -> None:
    """Read every file again and compare it with its name; exit 1 when one is damaged or missing."""
    context = context_of(typer_context)
    row = _run(context, at("store", "checks"), {"reason": reason}, wait=wait, timeout=timeout)
    told = f"Check {row['id']} {row['state']}: {_checked(row)}"
    if row["damaged"] or row["missing"]:
        raise CommandFailed(told, Exit.FAILED)
    context.say(told)


@app.command("checks")
def checks(typer_context: typer.Context, limit: Limit = 20) -> None:
    """Checks, newest first."""
    context = context_of(typer_context)
    rows = _newest(context, at("store", "checks"), limit)
    context.table(
        ("ID", "STATE", "BEGAN", "BY", "READ", "DAMAGED", "MISSING"),
        (
            (
                r["id"],
                r["state"],
                r["began_at"],
                r["asked_by"],
                size(r["bytes_done"]),
                r["damaged"],
                r["missing"],
            )
            for r in rows
        ),
    )


@app.command("findings")
def findings(
    typer_context: typer.Context,
    state: Annotated[str, typer.Option("--state", help="Only those in this state, such as lost.")] = "",
) -> None:
    """Files that checks found damaged or missing, and the versions that need them."""
    context = context_of(typer_context)
    rows = list(context.client.each(at("store", "findings"), state=state))
    context.show(rows)
    context.table(
        ("ID", "STATE", "SHA256", "SIZE", "VERSIONS", "WHAT"),
        (
            (r["id"], r["state"], r["sha256"][:12], size(r["bytes"]), " ".join(r["versions"]), r["detail"])
            for r in rows
        ),
    )


@app.command("repair")
def repair(typer_context: typer.Context, finding: int, reason: Reason = "") -> None:
    """Ask the sources of a lost file once more."""
    context = context_of(typer_context)
    row = context.client.post(at("store", "findings", finding, "retry"), {"reason": reason})
    context.show(row)
    context.say(f"Finding {row['id']} {row['state']}")


def _run(context: Context, address: Address, body: Document, *, wait: bool, timeout: float) -> Document:
    row = context.client.create(address, body)
    if wait:
        one = address.below(row["id"])
        row = until_over(context, row, one, is_open=lambda row: row["ended_at"] is None, timeout=timeout)
    context.show(row)
    return row


def _newest(context: Context, address: Address, limit: int) -> list[Document]:
    rows: list[Document] = context.client.get(address, limit=limit)["results"]
    context.show(rows)
    return rows


def _collected(row: Document) -> str:
    return f"deleted {counted(row['deleted_blobs'], 'file')}, {size(row['deleted_bytes'])}"


def _checked(row: Document) -> str:
    return f"{row['blobs_done']} files read, {row['damaged']} damaged, {row['missing']} missing"
