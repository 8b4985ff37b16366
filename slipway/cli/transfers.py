"""Follow syncs and exports, and the verbs of both."""

from collections.abc import Callable, Mapping

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, context_of, size
from slipway.cli.options import Number, Reason
from slipway.cli.waiting import POLL_SECONDS, WaitDeadline, patiently, transfer_bar
from slipway.client import ApiPath, Document
from slipway.exits import CommandFailed, Exit

HALTED = ("paused", "interrupted")
"""States from which the same command resumes."""


def follow(
    context: CliContext,
    document: Document,
    *,
    address: ApiPath,
    named: str,
    going: tuple[str, ...],
    done: tuple[str, ...],
    timeout: float,
    news_of: Callable[[Document], str] | None = None,
) -> Document:
    """Show how far a transfer at `address` is while its state is one of `going`; what it is then.

    Ends the command unless that is one of `done`. `named` begins a sentence, such as `The sync of acme/tiny`.
    What `news_of` tells is said when it changes: unless given, why it is as it is, if there is a reason.
    """

    def why(document: Document) -> str:
        reason = document["stuck"] or document["reason"]
        return f"{named} is {document['state']}: {reason}" if reason else ""

    news_of = news_of or why
    deadline, sleep = WaitDeadline(timeout), context.outside.sleep
    with transfer_bar(context.progress) as bar:
        task = bar.add_task(named, total=None)
        said = ""
        while document["state"] in going:
            if document["state"] == "interrupted":
                context.show(document)
                raise CommandFailed(
                    f"{named} is interrupted. {document['reason']} The same command goes on from there.",
                    Exit.FAILED,
                )
            if deadline.is_over:
                context.show(document)
                raise CommandFailed(f"{named} is still {document['state']}.", Exit.TIMED_OUT)
            if (news := news_of(document)) and news != said:
                said = news
                bar.console.print(news, markup=False)
            sleep(POLL_SECONDS)
            document = patiently(lambda: context.client.get(address), deadline, sleep=sleep)
            if progress := document["progress"]:
                bar.update(task, completed=progress["bytes_done"], total=progress["bytes_total"] or None)
    if document["state"] not in done:
        context.show(document)
        raise CommandFailed(f"{named} is {document['state']}. {document['reason']}", Exit.FAILED)
    return document


def seen_through(
    context: CliContext,
    document: Document,
    address: ApiPath,
    timeout: float,
    *,
    noun: str,
    going: tuple[str, ...],
    done: tuple[str, ...],
) -> Document:
    """The `sync` or `export` at `address` once nothing goes on; ends the command unless it is `done`."""
    named, ends = f"{noun.capitalize()} {document['id']}", (*done, *HALTED)
    document = follow(
        context, document, address=address, named=named, going=going, done=ends, timeout=timeout
    )
    if document["state"] in done:
        return document
    context.show(document)
    told = f"{named} is {document['state']}. {document['reason']}"
    raise CommandFailed(f"{told} `slipway {noun} resume {document['id']}` continues from there.", Exit.FAILED)


def how_far(progress: Document) -> str:
    """`, 24.1 MB of 77.6 MB, 5 of 6 files, 2.8 MB/s, 18 s left`; empty before there is a list of files."""
    if not progress["bytes_total"]:
        return ""
    told = [
        f"{size(progress['bytes_done'])} of {size(progress['bytes_total'])}",
        f"{progress['files_done']} of {progress['files_total']} files",
    ]
    if progress["bytes_per_second"]:
        told.append(f"{size(progress['bytes_per_second'])}/s")
    if progress["seconds_left"] is not None:
        told.append(f"{_span(progress['seconds_left'])} left")
    return "".join(f", {one}" for one in told)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def add_verbs(
    app: typer.Typer,
    address: ApiPath,
    verbs: Mapping[str, str],
    *,
    noun: str,
    tell: Callable[[CliContext, Document], None],
) -> None:
    """Commands that do something to one transfer below `address`; `verbs` says what each does."""
    for verb, does in verbs.items():
        act = _acting(address, verb, tell)
        asks = confirmed(f"Cancel the {noun} {{number}}?") if verb == "cancel" else None
        app.command(verb, help=does)(asks(act) if asks else act)


def _acting(address: ApiPath, verb: str, tell: Callable[[CliContext, Document], None]) -> Callable[..., None]:
    def act(typer_context: typer.Context, number: Number, reason: Reason = "") -> None:
        context = context_of(typer_context)
        document = context.client.create(address.below(number, verb), {"reason": reason})
        context.show(document)
        tell(context, document)

    return act
