"""docs/CLI.md names every command, and no other."""

import re
from pathlib import Path

import typer
from typer.core import TyperGroup

from slipway.cli import app

REFERENCE = Path(__file__).parents[2] / "docs/CLI.md"


def commands_below(group: TyperGroup, path: tuple[str, ...] = ()) -> set[str]:
    found: set[str] = set()
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            found |= commands_below(command, (*path, name))
        elif not command.hidden:
            found.add(" ".join((*path, name)))
    return found


def test_the_reference_names_every_command_and_no_other() -> None:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    rows = re.findall(r"^\| `([a-z -]+)` \| (.+) \|$", REFERENCE.read_text(), re.MULTILINE)
    named = {
        f"{noun} {verb}" for noun, verbs in rows for verb in re.findall(r"`([a-z-]+)`(?:,|$| \()", verbs)
    }
    alone = {name for name, command in root.commands.items() if not isinstance(command, TyperGroup)}
    alone = {name for name in alone if f"`slipway {name} " in REFERENCE.read_text()}
    assert named | alone == commands_below(root)
