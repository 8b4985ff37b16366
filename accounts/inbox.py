"""What waits for a person because the kernel has given it up, or because it has failed for minutes."""

from collections.abc import Iterator

from accounts.stuck import everything_stuck
from common.actor import Actor
from common.pages.inbox import InboxEntry


def stuck_rows(actor: Actor) -> Iterator[InboxEntry]:
    """Yield the stuck rows of every kind that the kernel knows."""
    for one in everything_stuck(actor, only_mine=True):
        yield InboxEntry(
            badge=("work", one.state),
            title=one.title,
            url=one.url,
            since=one.since,
            why=one.why,
            buttons="accounts/_stuck_entry.html" if one.may_retry else "",
            about=one,
        )
