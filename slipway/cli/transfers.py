"""What commands share that follow a transfer of the server to or from a hub."""

from pathlib import Path

from slipway.cli.context import Context
from slipway.cli.waiting import POLL_SECONDS, Deadline, patiently, transfer_bar
from slipway.client import Document
from slipway.exits import CommandFailed, Exit


def secret_of(path: Path | None) -> str:
    """The hub's token that a file holds; empty: no file is given."""
    if path is None:
        return ""
    try:
        secret = path.read_text().strip()
    except OSError as error:
        raise CommandFailed(f"--hub-token-file {path}: {error.strerror}.", Exit.USAGE) from None
    if not secret:
        raise CommandFailed(f"--hub-token-file {path} is empty.", Exit.USAGE)
    return secret


def wait_until_over(
    context: Context, document: Document, deadline: Deadline, *, path: str, named: str, going: tuple[str, ...]
) -> Document:
    """Show how far a transfer at `path` is while its state is one of `going`; what it is then.

    `named` begins a sentence, such as `The sync of acme/tiny`.
    """
    sleep = context.outside.sleep
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
            if (news := document["stuck"] or document["reason"]) and news != said:
                said = news
                bar.console.print(f"{named} is {document['state']}: {news}", markup=False)
            sleep(POLL_SECONDS)
            document = patiently(lambda: context.client.get(path), deadline, sleep=sleep)
            if progress := document["progress"]:
                bar.update(task, completed=progress["bytes_done"], total=progress["bytes_total"] or None)
    return document
