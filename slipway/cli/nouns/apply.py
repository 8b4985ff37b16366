"""`slipway apply`: objects of a team as the files of a directory want them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from slipway.cli.context import CliContext, Columns, context_of
from slipway.cli.files import text_of
from slipway.cli.options import Reason, Yes
from slipway.client import Document, ServerRefused, at
from slipway.exits import CommandFailed, Exit

app = typer.Typer()
PATTERNS = ("*.yaml", "*.yml")
COLUMNS: Columns = {
    "KIND": "kind",
    "NAME": "name",
    "TEAM": lambda row: row["team"] or "all",
    "ACTION": "action",
}


@app.command("apply")
def apply(
    typer_context: typer.Context,
    files: Annotated[
        Path, typer.Option("--files", "-f", help="Directory of YAML files, or one file; - is stdin.")
    ],
    team: Annotated[str, typer.Option("--team", help="Owner of the files, and of objects that name none.")],
    file_set: Annotated[
        str, typer.Option("--set", help="Name of this set of files; an object belongs to one set.")
    ] = "default",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes; change nothing.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove objects that left the files.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Undo what people changed since the files were applied last.")
    ] = False,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Make services, plans, policies and freeze windows as files want them; all of them, or none."""
    context = context_of(typer_context)
    found = list(_documents(files))
    body = {
        "team": team,
        "file_set": file_set,
        "documents": [document for _, document in found],
        "prune": prune,
        "overwrite": overwrite,
        "reason": reason,
    }

    def applied(*, dry: bool) -> Document:
        try:
            return context.client.post(at("configuration", "apply"), {**body, "dry_run": dry})
        except ServerRefused as refused:
            raise CommandFailed(_blamed(refused, [place for place, _ in found]), refused.exit) from None

    if prune and not dry_run:
        gone = [row for row in applied(dry=True)["results"] if row["action"] == "removed"]
        if gone:
            names = ", ".join(f"{row['kind']} {row['name']}" for row in gone)
            context.confirm(f"Remove {names}?", yes=yes)
    result = applied(dry=dry_run)
    context.show(result)
    context.tabulate(result["results"], COLUMNS)
    _say(context, result)


def _say(context: CliContext, result: Document) -> None:
    for row in result["results"]:
        for word, changes in (("", row["changes"]), ("changed since: ", row["drift"])):
            for one in changes:
                values = f"{_shown(one['before'])} -> {_shown(one['after'])}"
                context.say(f"{row['kind']} {row['name']}: {word}{one['field']}: {values}")
        if row["action"] == "left":
            context.say(f"{row['kind']} {row['name']} left the files; --prune removes it.")
    if result["dry_run"]:
        context.say("Nothing was changed: this was a dry run.")


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()


def _documents(files: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the documents of all files, each with its place. Raises CommandFailed."""
    from kube.untrusted_yaml import BadYaml, load_all

    paths = [files]
    if files.is_dir():
        paths = sorted(path for pattern in PATTERNS for path in files.rglob(pattern))
        if not paths:
            raise CommandFailed(f"There is no {' or '.join(PATTERNS)} in {files}.", Exit.USAGE)
    for path in paths:
        try:
            found = [one for one in load_all(text_of(path, named="--files"), numbers=True) if one is not None]
        except BadYaml as error:
            raise CommandFailed(f"{path} cannot be read: {error}.", Exit.USAGE) from None
        for number, document in enumerate(found, 1):
            place = f"{path}, document {number}"
            if not isinstance(document, Mapping) or not isinstance(document.get("spec"), Mapping):
                raise CommandFailed(f"{place}: give an object with kind, name and spec.", Exit.USAGE)
            yield place, document


def _blamed(refused: ServerRefused, places: list[str]) -> str:
    """Return the errors of documents, each with the place of its file."""
    lines = []
    for name, sentences in (refused.problem.get("errors") or {}).items():
        head, _, rest = name.partition(".")
        index, _, field = rest.partition(".")
        place = places[int(index)] if head == "documents" and index.isdigit() else ""
        lines.append(
            ": ".join(part for part in (place, field if place else name, " ".join(sentences)) if part)
        )
    return "Nothing was changed.\n" + "\n".join(lines) if lines else str(refused)
