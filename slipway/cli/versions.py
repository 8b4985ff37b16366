"""`slipway models versions`, and commands for one version and its import."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from slipway.cli.confirming import confirmed
from slipway.cli.context import CliContext, Columns, context_of, counted, flag, size
from slipway.cli.names import split_version
from slipway.cli.options import Reason, States, Timeout, VersionLabel, Wait
from slipway.cli.pushing import until_ready
from slipway.client import Document, at

FILE_COLUMNS: Columns = {
    "FILE": "path",
    "SIZE": lambda row: size(row["size"]),
    "SHA256": lambda row: row["sha256"][:12],
}
HISTORY_COLUMNS: Columns = {
    "AT": "at",
    "STATE": "to_state",
    "BY": "by",
    "REASON": "reason",
}


def versions(
    typer_context: typer.Context,
    model: Annotated[str | None, typer.Argument(help="Default: all models.")] = None,
    query: Annotated[
        str, typer.Option("--search", "-q", help="Part of a name, tag, digest or message.")
    ] = "",
    state: States = None,
    tag: Annotated[str, typer.Option("--tag", help="Exact tag.")] = "",
    alias: Annotated[str, typer.Option("--alias", help="Prefix of an alias.")] = "",
    architecture: Annotated[str, typer.Option("--architecture", help="Prefix of the architecture.")] = "",
    format: Annotated[str, typer.Option("--format", help="safetensors, gguf or onnx.")] = "",
    parameters_min: Annotated[str, typer.Option("--parameters-min", help="Such as 7B.")] = "",
    parameters_max: Annotated[str, typer.Option("--parameters-max", help="Such as 70B.")] = "",
    created_by: Annotated[str, typer.Option("--created-by", help="Prefix of the creator's name.")] = "",
    digest: Annotated[str, typer.Option("--digest", help="Prefix of the digest.")] = "",
    source: Annotated[str, typer.Option("--source", help="Part of the source.")] = "",
    served: Annotated[
        bool | None, typer.Option("--served/--not-served", help="Only versions in use, or not in use.")
    ] = None,
) -> None:
    """List versions of a model, or of all, newest first; archived ones only with --state archived."""
    context = context_of(typer_context)
    wanted = {
        "q": query,
        "state": state,
        "tag": tag,
        "alias": alias,
        "architecture": architecture,
        "format": format,
        "parameters_min": parameters_min,
        "parameters_max": parameters_max,
        "created_by": created_by,
        "digest": digest,
        "source": source,
        "served": flag(served),
    }
    address = at("models", model, "versions") if model is not None else at("versions")
    rows = list(context.client.each(address, **wanted))
    context.show(rows)
    context.table(
        ("VERSION", "STATE", "SIZE", "DIGEST", "TAGS", "ALIASES", "SERVED", "MESSAGE"),
        (
            (
                row["name"] if model is not None else f"{row['model']}:{row['name']}",
                row["state"],
                size(row["size_bytes"]),
                (row["digest"] or "")[:12],
                " ".join(row["tags"]),
                " ".join(row["aliases"]),
                " ".join(row["served"]),
                row["message"],
            )
            for row in rows
        ),
    )


def show_version(context: CliContext, label: str) -> None:
    """Show one version: its source, facts, files and history."""
    model, name = split_version(label)
    version = context.client.get(at("models", model, "versions", name))
    context.show(version)
    context.details(_told(version))
    context.tabulate(version["files"], FILE_COLUMNS)
    if found := list(_found(version["scan"] or {})):
        context.table(("SCAN", "FILE", "DETAIL"), found)
    context.tabulate(version["history"], HISTORY_COLUMNS)


def _found(scan: Document) -> Iterator[tuple[str, str, str]]:
    """Yield what the scan found: refused files, executable code, warnings."""
    for one in scan.get("refusals", ()):
        yield "refused", one["path"], one["reason"]
    for one in scan.get("code", ()):
        yield "code", one["path"], one["reason"]
    for one in scan.get("pickles", ()):
        yield "pickle", one["path"], _advised(one)
    for one in scan.get("warnings", ()):
        line = f", line {one['line']}" if one["line"] else ""
        yield one["kind"], f"{one['path']}{line}", one["reason"]


def _advised(pickle: Document) -> str:
    named = [f"{found['name']} ({found['level']})" for found in pickle["findings"]]
    said = f"picklescan reports {', '.join(named[:5])}" if named else ""
    more = f" and {len(named) - 5} more" if len(named) > 5 else ""
    if not said and not pickle["fault"]:
        return "picklescan reports nothing; that is no proof of safety."
    return f"{said}{more}{'.' if said else ''} {pickle['fault']}".strip()


def card(typer_context: typer.Context, version: VersionLabel) -> None:
    """Show the model card of a version."""
    context = context_of(typer_context)
    model, name = split_version(version)
    document = context.client.get(at("models", model, "versions", name, "card"))
    context.tell(document, document["text"].replace("\r\n", "\n").rstrip("\n"))
    if document["is_cut"]:
        context.progress.print("The model card is truncated here.")


@confirmed("Cancel the import of {version} and delete what it copied?")
def cancel(typer_context: typer.Context, version: VersionLabel, reason: Reason = "") -> None:
    """Cancel an import and delete what it copied."""
    context = context_of(typer_context)
    _say(context, _done(context, version, "cancel", reason))


def retry(
    typer_context: typer.Context,
    version: VersionLabel,
    reason: Reason = "",
    wait: Wait = True,
    timeout: Timeout = 3600,
) -> None:
    """Retry the import of a failed or refused version, or resume a paused one."""
    context = context_of(typer_context)
    document = _done(context, version, "retry", reason)
    if wait:
        document = until_ready(context, split_version(version)[0], document, timeout=timeout)
    _say(context, document)


def verify(typer_context: typer.Context, version: VersionLabel, reason: Reason = "") -> None:
    """Verify the signatures of a version again; the server signs it if its own signature is missing."""
    context = context_of(typer_context)
    context.tell(
        _done(context, version, "verify", reason),
        f"Verifying the signatures of {version}; see `slipway models show {version}`.",
    )


def _done(context: CliContext, label: str, verb: str, reason: str) -> Document:
    model, name = split_version(label)
    return context.client.create(at("models", model, "versions", name, verb), {"reason": reason})


def _say(context: CliContext, version: Document) -> None:
    context.tell(
        version, f"{version['model']}:{version['name']} is {version['state']}. {version['reason']}".rstrip()
    )


def _told(version: Document) -> dict[str, str]:
    signature = version["signature"] or {"standing": "unsigned", "reason": ""}
    return {
        "version": f"{version['model']}:{version['name']}",
        "state": f"{version['state']} {version['stuck'] or version['reason']}".rstrip(),
        "digest": version["digest"] or "",
        "same content as": version["same_content_as"],
        "size": f"{size(version['size_bytes'])} in {counted(version['file_count'], 'file')}",
        "architecture": version["architecture"],
        **_network(version),
        "source": version["source"]["uri"],
        "commit": version["source"].get("commit", ""),
        "author": f"{version['author']} at {version['created_at']}",
        "message": version["message"],
        "aliases": " ".join(version["aliases"]),
        "tags": " ".join(version["tags"]),
        "served": " ".join(version["served"]),
        "signature": f"{signature['standing']} {signature['reason']}".rstrip(),
        **{key.replace("_", " "): _joined(value) for key, value in version["lineage"].items()},
    }


def _network(version: Document) -> dict[str, str]:
    """Return the facts of its config and weights; empty where they say nothing."""
    facts = version["facts"] or {}
    memory = facts.get("memory") or {}
    cache = memory.get("kv_cache_bytes_per_1k_tokens")
    return {
        "parameters": "" if version["parameters"] is None else f"{version['parameters']:,}",
        "context": f"{version['context_length']:,} tokens" if version["context_length"] else "",
        "weights": " ".join(filter(None, (facts.get("format"), version["dtype"]))),
        "quantization": version["quantization"],
        "GPU memory": f"{size(memory['weights_bytes'])} for weights" if memory.get("weights_bytes") else "",
        "KV cache": f"{size(cache)} for 1,000 tokens, in {memory['kv_cache_dtype']}" if cache else "",
        "unknown": _joined(facts.get("unknown")),
        "notes": _joined((version["scan"] or {}).get("notes")),
    }


def _joined(told: Any) -> str:
    return " ".join(map(str, told)) if isinstance(told, list) else str(told or "")
