"""`slipway models push`: a version from a directory of this machine, or of the server."""

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from slipway.cli.context import CliContext, context_of, size
from slipway.cli.options import BaseModel, Data, Ignore, Job, NewTags, Parent
from slipway.cli.transfers import follow
from slipway.cli.waiting import transfer_bar
from slipway.client import Document, ServerRefused, at
from slipway.exits import CommandFailed
from slipway.hashing import HashedFile, HashMemory, LocalFile, hashed, listed
from slipway.uploading import JOBS, Sender

TOLD_AT_EVERY = 10
"""Per cent, where nobody looks on."""


def push(
    typer_context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="Directory in Hugging Face layout.")],
    model: Annotated[str, typer.Option("--model", "-m", help="Model that gets the version.")],
    name: Annotated[str, typer.Option("--version", help="Version name; default: the next v-number.")] = "",
    message: Annotated[str, typer.Option("--message", help="Description of this version.")] = "",
    create: Annotated[bool, typer.Option("--create", help="Create the model if it does not exist.")] = False,
    task: Annotated[
        str, typer.Option("--task", help="With --create: task of the model.")
    ] = "text-generation",
    team: Annotated[str, typer.Option("--team", help="With --create: owner of the model.")] = "",
    parent: Parent = "",
    base_model: BaseModel = "",
    job: Job = "",
    data: Data = None,
    tag: NewTags = None,
    alias: Annotated[
        str, typer.Option("--alias", help="Alias to point at the version once it is ready.")
    ] = "",
    reason: Annotated[str, typer.Option("--reason", help="With --alias: reason.")] = "",
    ignore: Ignore = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=32, help="Parallel connections.")] = JOBS,
    server_path: Annotated[
        bool,
        typer.Option(
            "--server-path",
            help="The directory is in one of the server's import roots: nothing is uploaded. "
            "file://HOST/DIRECTORY names one of several hosts.",
        ),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the version is ready or refused.")
    ] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Maximum wait in seconds once the upload is complete.")
    ] = 3600,
) -> None:
    """Create a version from a directory; exit 0 when it is ready, 1 when it is refused.

    Only files that the server lacks are uploaded. Run again, an interrupted push resumes.
    """
    context = context_of(typer_context)

    def ensure_model() -> None:
        if _is_missing(context, model, create=create):
            new = {"name": model, "task": task} | ({"team": team} if team else {})
            context.client.create(at("models"), new)

    # Before the long work: without a model, or a token, there is no use in it.
    _is_missing(context, model, create=create)
    lineage = lineage_of(parent=parent, base_model=base_model, job=job, data=data)
    body: dict[str, Any] = {"message": message}
    body |= ({"version": name} if name else {}) | ({"lineage": lineage} if lineage else {})
    if server_path:
        # A Path keeps one slash of file://host/directory.
        address = str(directory)
        is_address = address.startswith("file:/")
        source = address.replace(":/", "://", 1) if is_address else str(directory.absolute())
        body |= {"source": source} | ({"ignore_patterns": ignore} if ignore else {})
        ensure_model()
        version = context.client.create(at("models", model, "versions"), body)
    else:
        version = _upload(
            context, model, directory, body, ensure_model=ensure_model, ignore=ignore or (), jobs=jobs
        )
    version = tagged(context, version, tag)
    if wait or alias:
        version = until_ready(context, model, version, timeout=timeout)
    if alias:
        put = {"version": version["name"], "reason": reason or message or "Pushed from the command line."}
        context.client.put(at("models", model, "aliases", alias), put)
    context.tell(version, outcome_of(version))


def outcome_of(version: Document) -> str:
    """Say in a line how an import ended."""
    told = f"{version['model']}:{version['name']} {version['state']}, {size(version.get('size_bytes'))}"
    same = version.get("same_content_as")
    return f"{told}, same content as {same}" if same else told


def lineage_of(**told: Any) -> dict[str, Any]:
    """Return the lineage fields that were given."""
    return {key: value for key, value in told.items() if value}


def tagged(context: CliContext, version: Document, tags: Sequence[str] | None) -> Document:
    """A version that was just begun, with its tags. Raises CommandFailed."""
    if not tags:
        return version
    address = at("models", version["model"], "versions", version["name"], "tags")
    try:
        return context.client.create(address, {"add": tags})
    except ServerRefused as refused:
        label = f"{version['model']}:{version['name']}"
        raise CommandFailed(
            f"{label} is imported, but its tags are missing. {refused}", refused.exit
        ) from None


def _upload(
    context: CliContext,
    model: str,
    directory: Path,
    body: dict[str, Any],
    *,
    ensure_model: Callable[[], None],
    ignore: Sequence[str],
    jobs: int,
) -> Document:
    """The version that is made of what was sent."""
    client = context.client
    memory = HashMemory.of_user()

    origin = f"{socket.gethostname()}:{directory.absolute()}"[:300]

    def read() -> list[HashedFile]:
        return _hashed(context, listed(directory, ignore=ignore), memory, threads=jobs)

    def sender_of(files: Sequence[HashedFile]) -> Sender:
        return Sender(client, model, files, memory=memory, jobs=jobs, sleep=context.outside.sleep)

    files = read()
    ensure_model()
    sender = sender_of(files)
    upload = sender.begin(origin)
    if sender.doubts(upload) and (again := read()) != files:
        sender.cancel(upload, reason="Its files changed since they were announced.")
        sender = sender_of(again)
        upload = sender.begin(origin)
    lacking = size(upload["total_bytes"] - upload["received_bytes"])
    context.progress.print(
        f"{upload['file_count']} files, {size(upload['size_bytes'])}: {lacking} to upload "
        f"(upload {upload['id']}).",
        markup=False,
    )
    with _shown(context, "Uploading", upload["total_bytes"], upload["received_bytes"]) as counted:
        upload = sender.send(upload, counted=counted)
    return sender.complete(upload, body)


def _hashed(
    context: CliContext, files: Sequence[LocalFile], memory: HashMemory, *, threads: int
) -> list[HashedFile]:
    total = sum(file.size for file in files)
    with _shown(context, "Hashing", total, 0) as counted:
        return hashed(files, memory, threads=min(threads, os.cpu_count() or 1), counted=counted)


@contextmanager
def _shown(context: CliContext, what: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """A bar where a person looks on, a line now and then elsewhere; told of bytes from several threads."""
    lock = threading.Lock()
    said = 100 * done // total if total else 100
    with transfer_bar(context.progress) as bar:
        task = bar.add_task(what, total=total, completed=done)

        def counted(count: int) -> None:
            nonlocal done, said
            with lock:
                done += count
                bar.update(task, completed=done)
                percent = 100 * done // total if total else 100
                if bar.disable and percent >= said - said % TOLD_AT_EVERY + TOLD_AT_EVERY:
                    said = percent
                    context.progress.print(
                        f"{what}: {size(done)} of {size(total)}, {percent} %", markup=False
                    )

        yield counted


def _is_missing(context: CliContext, model: str, *, create: bool) -> bool:
    """Whether the model is still to be made; Refused is raised where it shall not be."""
    try:
        context.client.get(at("models", model))
    except ServerRefused as refused:
        if refused.status != 404 or not create:
            raise
        return True
    return False


def until_ready(context: CliContext, model: str, version: Document, *, timeout: float) -> Document:
    label = f"{model}:{version['name']}"

    def stuck(version: Document) -> str:
        return f"The import of {label} is stuck: {version['stuck']}" if version["stuck"] else ""

    address = at("models", model, "versions", version["name"])
    going, done = ("importing",), ("ready",)
    return follow(
        context, version, address=address, named=label, going=going, done=done, timeout=timeout, news_of=stuck
    )
