"""Following a release: a live picture on a terminal, plain lines in a pipe, an exit status for both."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slipway.cli.context import CliContext
from slipway.cli.waiting import POLL_SECONDS, WaitDeadline, patiently
from slipway.client import Document, at
from slipway.exits import Exit

if TYPE_CHECKING:
    from rich.console import Console, Group

ENDS = {
    "promoted": Exit.DONE,
    "failed": Exit.FAILED,
    "rolled_back": Exit.FAILED,
    "aborted": Exit.FAILED,
    "rejected": Exit.REJECTED,
}
MARKS = {
    "done": "✓",
    "running": "▶",
    "failed": "✗",
    "aborted": "✗",
    "rejected": "✗",
    "not_run": "–",
    "pending": "·",
}
STYLES = {
    "done": "green",
    "running": "bold cyan",
    "failed": "red",
    "aborted": "yellow",
    "rejected": "red",
    "not_run": "dim",
    "pending": "dim",
}


def watch(
    context: CliContext, release: Document, *, stop_at_approval: bool, timeout_seconds: float
) -> tuple[Document, Exit]:
    """The release as it ended, or stands when a person is needed or time is over; and the exit status."""
    deadline = WaitDeadline(timeout_seconds)
    address = at("releases", release["id"])
    sleep = context.outside.sleep
    stuck_since = None
    with _display(context.progress) as show:
        while True:
            show(release)
            if (since := _stuck_since(release)) != stuck_since:
                stuck_since = since
                if since is not None:
                    context.progress.print(_way_out(release), markup=False)
            state = release["state"]
            if state in ENDS:
                return release, ENDS[state]
            if stop_at_approval and state == "waiting_approval" and release["waiting_for"] is not None:
                return release, Exit.WAITING_APPROVAL
            if deadline.is_over:
                return release, Exit.TIMED_OUT
            sleep(POLL_SECONDS)
            release = patiently(lambda: context.client.get(address), deadline, sleep=sleep)


def _stuck_since(release: Document) -> str | None:
    return str((release["waiting_for"] or {}).get("since")) if release["state"] == "stuck" else None


def _way_out(release: Document) -> str:
    number = release["id"]
    return (
        f"Release {number} is stuck: {release['last_error'] or 'unknown reason'}\n"
        f"Retry with `slipway release resume {number}`, or abort with "
        f"`slipway release abort {number}`; this command keeps waiting."
    )


class _display:
    """Shows each reading in the way that the console can."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._said: set[str] = set()

    def __enter__(self) -> Callable[[Document], None]:
        if self._live is None:
            return self._say_news
        self._live.start()
        return lambda release: self._live.update(picture(release)) if self._live else None

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _say_news(self, release: Document) -> None:
        for line in news(release):
            if line not in self._said:
                self._said.add(line)
                self._console.print(line, markup=False)


def news(release: Document) -> list[str]:
    """Return the news of a release, a line each; lines that were printed before need not be printed again."""
    lines = [
        f"step {step['index'] + 1}/{len(release['steps'])} {step['title']}: {step['state']}"
        + (f" ({note})" if (note := _note(step)) and step["state"] != "running" else "")
        for step in release.get("steps", ())
        if step["state"] != "pending"
    ]
    return [*lines, *fetch_lines(release, rough=True), f"state {release['state']}"]


def picture(release: Document) -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = Text.assemble(
        (f"{release['version']}", "bold"), f" on {release['service']}  ", (release["state"], "bold")
    )
    steps = Table(box=None, show_header=False, pad_edge=False)
    for step in release.get("steps", ()):
        style = STYLES.get(step["state"], "")
        steps.add_row(
            Text(MARKS.get(step["state"], "?"), style=style),
            Text(step["title"], style=style),
            Text(_note(step), style="dim"),
        )
    fetches = [Text(line, style="dim") for line in fetch_lines(release)]
    return Group(title, steps, *fetches, Text(_traffic(release), style="dim"))


def fetch_lines(release: Document, *, rough: bool = False) -> list[str]:
    """A line a machine. `rough`: in steps of a tenth and without the rate, for lines that stay."""
    found = []
    for one in release.get("fetches") or ():
        come, size = one["come_bytes"], one["size_bytes"]
        percent = 100 * come // size if size else 100
        if rough:
            found.append(f"model files on {one['place']}: {percent // 10 * 10} %")
            continue
        rate, left = one["bytes_per_second"], one["left_seconds"]
        speed = "" if rate is None else f", {rate / 1e6:.1f} MB/s"
        still = "" if left is None else f", {left:,} s left"
        found.append(f"model files on {one['place']}: {percent} % of {size / 1e9:.2f} GB{speed}{still}")
    return found


def _note(step: dict[str, Any]) -> str:
    return str((step.get("detail") or {}).get("note") or "")


def _traffic(release: Document) -> str:
    weights = release.get("weights") or {}
    desired = (weights.get("desired") or {}).get("candidate")
    observed = (weights.get("observed") or {}).get("candidate")
    if desired is None:
        return ""
    seen = "not measured" if observed is None else f"{observed:g} %"
    return f"candidate: {desired:g} % desired, {seen} observed"
