from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.names import split_version
from slipway.cli.options import Reason, RequiredReason, Timeout, VersionLabel, WaitForEnd
from slipway.cli.release_status import release_named, status_lines
from slipway.cli.watching import ENDS, fetch_lines, watch
from slipway.client import Document, at
from slipway.exits import Exit

app = typer.Typer(help="Releases: the rollout of a version to a service.", no_args_is_help=True)

COLUMNS: Columns = {
    "RELEASE": "id",
    "SERVICE": "service",
    "VERSION": "version",
    "STATE": "state",
    "BY": "requester",
    "SINCE": "created_at",
}


class ReleaseWaitGoal(StrEnum):
    END = "end"
    APPROVAL = "approval"


WaitFor = Annotated[
    ReleaseWaitGoal | None,
    typer.Option("--wait-for", help="approval: also stop waiting, with exit 5, when an approval is needed."),
]


@app.command("start")
@confirmed("Release {version} to {service}?")
def start(
    typer_context: typer.Context,
    service: str,
    version: VersionLabel,
    plan: Annotated[str, typer.Option("--plan", help="Release plan; default: the service's.")] = "",
    image: Annotated[str, typer.Option("--image", help="Runtime image; default: the service's.")] = "",
    bypass: Annotated[
        str,
        typer.Option(
            "--bypass", help="Reason to release although the plan does not meet the release policy."
        ),
    ] = "",
    override: Annotated[str, typer.Option("--override", help="Reason to release in spite of a freeze.")] = "",
    reason: Reason = "",
    wait: WaitForEnd = False,
    wait_for: WaitFor = None,
    timeout: Timeout = 3600,
) -> None:
    """Start a release; exit 6 and the time at which it ends while a freeze holds."""
    context = context_of(typer_context)
    model, name = split_version(version)
    body = {"service": service, "model": model, "version": name, "reason": reason}
    body |= {key: value for key, value in _given(plan, image, bypass, override).items() if value}
    release = context.client.create(at("releases"), body)
    _announce(context, release)
    _finish(context, release, wait=wait, wait_for=wait_for, timeout=timeout)


def _given(plan: str, image: str, bypass: str, override: str) -> dict[str, str]:
    return {"plan": plan, "image": image, "bypass": bypass, "override": override}


@app.command("return")
@confirmed("Return {service} to {version}? All its traffic goes there.")
def return_to(
    typer_context: typer.Context,
    service: str,
    version: Annotated[str, typer.Argument(help="Version that served before, such as chat:v3 or v3.")],
    reason: RequiredReason = "",
    wait: WaitForEnd = False,
    wait_for: WaitFor = None,
    timeout: Timeout = 3600,
) -> None:
    """Return to a version that served before, without the steps that the release policy lets be skipped."""
    context = context_of(typer_context)
    body = {"version": version.rpartition(":")[2], "reason": reason}
    release = context.client.create(at("services", service, "return"), body)
    _announce(context, release)
    _finish(context, release, wait=wait, wait_for=wait_for, timeout=timeout)


@app.command("status")
def status(
    typer_context: typer.Context,
    release: Annotated[str, typer.Argument(help="Number, or the name of a service: its latest release.")],
    wait: WaitForEnd = False,
    wait_for: WaitFor = None,
    timeout: Timeout = 3600,
) -> None:
    """Show step, weight, evidence and what a release waits for. Without --wait the exit status is 0."""
    context = context_of(typer_context)
    try:
        found = release_named(context.client, release)
    except LookupError as error:
        raise typer.BadParameter(str(error)) from None
    _finish(context, found, wait=wait, wait_for=wait_for, timeout=timeout, details=True)


@app.command("override")
@confirmed("Let release {release_id} go on in spite of the freeze?")
def override_freeze(typer_context: typer.Context, release_id: int, reason: RequiredReason = "") -> None:
    """Let a release that a freeze holds go on."""
    _act(typer_context, release_id, "override", reason)


@app.command("list")
def list_releases(
    typer_context: typer.Context,
    service: Annotated[str, typer.Option("--service", help="Only releases of this service.")] = "",
    state: Annotated[str, typer.Option("--state", help="Only in this state, such as waiting_approval.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")] = 100,
) -> None:
    """List releases, newest first."""
    context = context_of(typer_context)
    rows = context.client.get(at("releases"), service=service, state=state, limit=limit)["results"]
    context.rows(rows, COLUMNS)


@app.command("approve")
@confirmed("Approve release {release_id}? Its traffic grows as its plan says.")
def approve(
    typer_context: typer.Context,
    release_id: int,
    reason: RequiredReason = "",
    wait: WaitForEnd = False,
    wait_for: WaitFor = None,
    timeout: Timeout = 3600,
) -> None:
    """Approve a release that waits for approval."""
    _act(typer_context, release_id, "approve", reason, wait=wait, wait_for=wait_for, timeout=timeout)


ENDING = {
    "reject": "Reject a release: all traffic returns to stable.",
    "abort": "Abort a release: all traffic returns to stable.",
    "rollback": (
        "Roll back to the previous version; for a promoted release, by a new release of that version."
    ),
}
"""Verbs whose end can be waited for."""
PASSING = {
    "pause": "Pause a release at its current step; the analysis continues.",
    "resume": "Resume a paused release, or retry a stuck one.",
}


def _ending(verb: str) -> Callable[..., None]:
    def act(
        typer_context: typer.Context,
        release_id: int,
        reason: RequiredReason = "",
        wait: WaitForEnd = False,
        timeout: Timeout = 3600,
    ) -> None:
        _act(typer_context, release_id, verb, reason, wait=wait, timeout=timeout)

    return act


def _passing(verb: str) -> Callable[..., None]:
    def act(typer_context: typer.Context, release_id: int, reason: Reason = "") -> None:
        _act(typer_context, release_id, verb, reason)

    return act


@app.command("end-bake")
@confirmed("End the bake time of release {release_id} and stop the workers kept warm for a rollback?")
def end_bake(typer_context: typer.Context, release_id: int, reason: Reason = "") -> None:
    """End the bake time: stop the workers that are kept warm for a rollback."""
    _act(typer_context, release_id, "end-bake", reason)


for verb, does in ENDING.items():
    question = confirmed(f"{verb.capitalize()} release {{release_id}}? Its traffic returns to stable.")
    app.command(verb, help=does)(question(_ending(verb)))
for verb, does in PASSING.items():
    app.command(verb, help=does)(_passing(verb))


def _act(
    typer_context: typer.Context,
    release_id: int,
    verb: str,
    reason: str,
    *,
    wait: bool = False,
    wait_for: ReleaseWaitGoal | None = None,
    timeout: float = 3600,
) -> None:
    context = context_of(typer_context)
    body = {"reason": reason}
    release = context.client.create(at("releases", release_id, verb), body)
    if release["id"] != release_id:
        _announce(context, release)
    _finish(context, release, wait=wait, wait_for=wait_for, timeout=timeout)


def _announce(context: CliContext, release: Document) -> None:
    words = f"Release {release['id']} of {release['version']} to {release['service']}"
    undoes = f", rolls back #{release['undoes']}" if release.get("undoes") else ""
    context.progress.print(f"{words}{undoes}: {release['url']}", markup=False)


def _finish(
    context: CliContext,
    release: Document,
    *,
    wait: bool,
    wait_for: ReleaseWaitGoal | None,
    timeout: float,
    details: bool = False,
) -> None:
    status = Exit.DONE
    if wait or wait_for:
        release, status = watch(
            context, release, stop_at_approval=wait_for is ReleaseWaitGoal.APPROVAL, timeout_seconds=timeout
        )
    details_of = status_lines(release) if details else ()
    context.tell(release, "\n".join((_summary(release), *details_of, *fetch_lines(release))))
    if status:
        raise typer.Exit(status)


def _summary(release: Document) -> str:
    words = f"Release {release['id']}: {release['version']} on {release['service']} is"
    if release["state"] not in ENDS and release["halted_by"]:
        return f"{words} rolling back ({release['halted_by']}): {release['outcome']}"
    if release["state"] not in (*ENDS, "paused", "stuck") and release["paused_by"]:
        return f"{words} pausing ({release['paused_by']})"
    if release["state"] == "paused" and not release["paused_by"]:
        return f"{words} resuming"
    if release["state"] == "waiting_approval" and release["waiting_for"] is None:
        return f"{words} approved; continuing"
    if release["undone_by"]:
        return f"{words} promoted, and was rolled back by release {release['undone_by']}."
    if release["superseded_by"]:
        return f"{words} promoted, and was superseded by release {release['superseded_by']}."
    return f"{words} {release['state']}" + (f". {release['outcome']}" if release["outcome"] else "")
