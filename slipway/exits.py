"""What the command's exit status tells a pipeline. A promise: see the README, "Command line"."""

from enum import IntEnum


class Exit(IntEnum):
    DONE = 0
    """Done; for a release that was waited for: promoted."""
    FAILED = 1
    """The release failed, was aborted or was rolled back; or the server refused or failed."""
    USAGE = 2
    """The command, or a setting, makes no sense; or names something that is not there."""
    REJECTED = 3
    TIMED_OUT = 4
    WAITING_APPROVAL = 5
    FROZEN = 6
    NOT_ALLOWED = 7
    UNREACHABLE = 8


class CommandFailed(Exception):
    """Ends the command: `str(error)` goes to stderr, `exit` is its status."""

    def __init__(self, message: str, exit: Exit) -> None:
        super().__init__(message)
        self.exit = exit
