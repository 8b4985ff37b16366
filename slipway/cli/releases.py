from enum import StrEnum
from typing import Annotated

import typer

from slipway.cli.context import Context, context_of
from slipway.cli.names import split_version
from slipway.cli.options import Reason, VersionLabel
from slipway.cli.watching import ENDS, watch
from slipway.client import Document, at
from slipway.exits import Exit

app = typer.Typer(
    help="Releases: one version on its way to all of a service's traffic.", no_args_is_help=True
)

Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end; the exit status tells it.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait at most; then exit 4.")]


class Until(StrEnum):
    END = "end"
    APPROVAL = "approval"


WaitFor = Annotated[
    Until | None,
    typer.Option("--wait-for", help="approval: also stop, with exit 5, when a person is needed."),
]


@app.command("start")
def start(
    typer_context: typer.Context,
    service: str,
    version: VersionLabel,
    plan: Annotated[str, typer.Option("--plan", help="Empty: the service's own.")] = "",
    image: Annotated[str, typer.Option("--image", help="Runtime image; empty: as the service says.")] = "",
    bypass: Annotated[
        str,
        typer.Option("--bypass", help="Why it may be released though its plan falls short of the policy."),
    ] = "",
    reason: Reason = "",
    wait: Wait = False,
    wait_for: WaitFor = None,
    timeout: Timeout = 3600,
) -> None:
    """Set a version on its way."""
    context = context_of(typer_context)
    model, name = split_version(version)
    body = {"service": service, "model": model, "version": name, "reason": reason}
    body |= {key: value for key, value in {"plan": plan, "image": image, "bypass": bypass}.items() if value}
    release = context.client.create(at("releases"), body)
    _announce(context, release)
    _finish(context, release, wait=wait, wait_for=wait_for, timeout=timeout)


@app.command("status")
def status(
    typer_context: typer.Context,
    release_id: int,
    wait: Wait = False,
    wait_for: WaitFor = None,
    timeout: Timeout = 3600,
) -> None:
    """How a release stands. Without --wait the exit status is 0 whatever its state."""
    context = context_of(typer_context)
    _finish(
        context, context.client.get(at("releases", release_id)), wait=wait, wait_for=wait_for, timeout=timeout
    )


@app.command("list")
def list_releases(
    typer_context: typer.Context,
    service: Annotated[str, typer.Option("--service")] = "",
    state: Annotated[str, typer.Option("--state", help="For example waiting_approval.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at most.")] = 100,
) -> None:
    """Releases, newest first."""
    context = context_of(typer_context)
    rows = context.client.get(at("releases"), service=service, state=state, limit=limit)["results"]
    context.show(rows)
    context.table(
        ("RELEASE", "SERVICE", "VERSION", "STATE", "BY", "SINCE"),
        (
            (r["id"], r["service"], r["version"], r["state"], r.get("requester"), r.get("created_at"))
            for r in rows
        ),
    )


@app.command("approve")
def approve(
    typer_context: typer.Context,
    release_id: int,
    reason: Reason = "",
    wait: Wait = False,
    wait_for: WaitFor = None,
    timeout: Timeout = 3600,
) -> None:
    """Say yes to the approval it waits for."""
    _act(typer_context, release_id, "approve", reason, wait=wait, wait_for=wait_for, timeout=timeout)


@app.command("reject")
def reject(
    typer_context: typer.Context,
    release_id: int,
    reason: Reason = "",
    wait: Wait = False,
    timeout: Timeout = 3600,
) -> None:
    """Say no: all traffic returns to stable."""
    _act(typer_context, release_id, "reject", reason, wait=wait, timeout=timeout)


@app.command("abort")
def abort(
    typer_context: typer.Context,
    release_id: int,
    reason: Reason = "",
    wait: Wait = False,
    timeout: Timeout = 3600,
) -> None:
    """Give up now: all traffic returns to stable."""
    _act(typer_context, release_id, "abort", reason, wait=wait, timeout=timeout)


@app.command("rollback")
def rollback(
    typer_context: typer.Context,
    release_id: int,
    reason: Reason = "",
    wait: Wait = False,
    timeout: Timeout = 3600,
) -> None:
    """Return to the version before; of a promoted release, by a new release of that version."""
    _act(typer_context, release_id, "rollback", reason, wait=wait, timeout=timeout)


@app.command("end-bake")
def end_bake(typer_context: typer.Context, release_id: int, reason: Reason = "") -> None:
    """Stop now the workers that are kept warm for a rollback."""
    _act(typer_context, release_id, "end-bake", reason)


@app.command("pause")
def pause(typer_context: typer.Context, release_id: int, reason: Reason = "") -> None:
    """Stay at the present step; the judge keeps watching."""
    _act(typer_context, release_id, "pause", reason)


@app.command("resume")
def resume(typer_context: typer.Context, release_id: int, reason: Reason = "") -> None:
    """Go on after a pause, or try a stuck release again."""
    _act(typer_context, release_id, "resume", reason)


def _act(
    typer_context: typer.Context,
    release_id: int,
    verb: str,
    reason: str,
    *,
    wait: bool = False,
    wait_for: Until | None = None,
    timeout: float = 3600,
) -> None:
    context = context_of(typer_context)
    body = {"reason": context.asked_for(reason)}
    release = context.client.create(at("releases", release_id, verb), body)
    if release["id"] != release_id:
        _announce(context, release)
    _finish(context, release, wait=wait, wait_for=wait_for, timeout=timeout)


def _announce(context: Context, release: Document) -> None:
    words = f"Release {release['id']} of {release['version']} to {release['service']}"
    undoes = f", taking back release {release['undoes']}" if release.get("undoes") else ""
    context.progress.print(f"{words}{undoes}: {release['url']}", markup=False)


def _finish(
    context: Context, release: Document, *, wait: bool, wait_for: Until | None, timeout: float
) -> None:
    status = Exit.DONE
    if wait or wait_for:
        release, status = watch(
            context, release, stop_at_approval=wait_for is Until.APPROVAL, timeout_seconds=timeout
        )
    context.show(release)
    context.say(_summary(release))
    if status:
        raise typer.Exit(status)


def _summary(release: Document) -> str:
    words = f"Release {release['id']}: {release['version']} on {release['service']} is"
    if release["state"] not in ENDS and release["halted_by"]:
        return f"{words} being given up, as {release['halted_by']} asked: {release['outcome']}"
    if release["state"] not in (*ENDS, "paused", "stuck") and release["paused_by"]:
        return f"{words} being paused, as {release['paused_by']} asked"
    if release["state"] == "paused" and not release["paused_by"]:
        return f"{words} about to go on"
    if release["state"] == "waiting_approval" and release["waiting_for"] is None:
        return f"{words} approved and goes on"
    return f"{words} {release['state']}" + (f". {release['outcome']}" if release["outcome"] else "")
