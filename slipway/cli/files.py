"""Small files that people name on the command line."""

import sys
from pathlib import Path

from slipway.exits import CommandFailed, Exit


def text_of(path: Path, *, named: str) -> str:
    """Return the text of a file, or of standard input for `-`; `named` is the option or argument.

    Raises CommandFailed.
    """
    try:
        text = (sys.stdin.read() if str(path) == "-" else path.read_text()).strip()
    except OSError as error:
        raise CommandFailed(f"{named} {path}: {error.strerror}.", Exit.USAGE) from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{named} {path} is not text.", Exit.USAGE) from None
    if not text:
        raise CommandFailed(f"{named} {path} is empty.", Exit.USAGE)
    return text


def write_text(path: Path, text: str) -> None:
    """Raises CommandFailed."""
    try:
        path.write_text(text)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.", Exit.USAGE) from None


def make_directory(path: Path) -> None:
    """Raises CommandFailed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be made: {error.strerror}.", Exit.USAGE) from None
