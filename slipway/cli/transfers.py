"""What commands share that follow what the server brings in or sends away."""

from collections.abc import Callable
from typing import Annotated

import typer

from slipway.cli.context import Context
from slipway.cli.waiting import POLL_SECONDS, Deadline, patiently, transfer_bar
from slipway.client import Document
from slipway.exits import CommandFailed, Exit

HALTED = ("paused", "interrupted")
"""States from which the same command resumes."""

Allow = Annotated[list[str] | None, typer.Option("--allow", help="Only files that match; may be repeated.")]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", help="Leave out files that match; may be repeated.")
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is over.")]


def follow(
    context: Context,
    document: Document,
    *,
    path: str,
    named: str,
    going: tuple[str, ...],
    done: tuple[str, ...],
    timeout: float,
    news_of: Callable[[Document], str] | None = None,
) -> Document:
    """Show how far a transfer at `path` is while its state is one of `going`; what it is then.

    Ends the command unless that is one of `done`. `named` begins a sentence, such as `The sync of acme/tiny`.
    What `news_of` tells is said when it changes: unless given, why it is as it is, if there is a reason.
    """

    def why(document: Document) -> str:
        reason = document["stuck"] or document["reason"]
        return f"{named} is {document['state']}: {reason}" if reason else ""

    news_of = news_of or why
    deadline, sleep = Deadline(timeout), context.outside.sleep
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
            document = patiently(lambda: context.client.get(path), deadline, sleep=sleep)
            if progress := document["progress"]:
                bar.update(task, completed=progress["bytes_done"], total=progress["bytes_total"] or None)
    if document["state"] not in done:
        context.show(document)
        raise CommandFailed(f"{named} is {document['state']}. {document['reason']}", Exit.FAILED)
    return document
