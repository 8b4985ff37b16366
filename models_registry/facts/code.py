"""A version's own code: its Python files, and what says which packages they need."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from model_store import blob_store
from model_store.errors import BlobMissing
from model_store.file_manifest import ManifestFile

LOCKS = ("pylock.toml", "uv.lock", "requirements.lock")
BESIDE = ("slipway.json", "pyproject.toml", "requirements.txt", *LOCKS)
MAX_BYTES = 262_144
MAX_FILES = 100
ROUTES = ("get", "post", "stream", "job")


@dataclass(frozen=True, slots=True)
class DeclaredByApp:
    """Declarations in a service's code, as its text says; None: it says it by more than literals."""

    indicators: frozenset[str] | None
    routes: frozenset[str] | None


def is_code(path: str) -> bool:
    return path.endswith(".py") or PurePosixPath(path).name in BESIDE


def code_of(manifest: Sequence[ManifestFile]) -> dict[str, str]:
    """The text of its code by path; without files above 256 KiB, beyond a hundred, or that the store has
    lost."""
    wanted = [file for file in manifest if is_code(file.path) and file.size <= MAX_BYTES]
    return dict(_read(wanted[:MAX_FILES]))


def _read(files: Iterable[ManifestFile]) -> Iterator[tuple[str, str]]:
    for file in files:
        try:
            with blob_store.store().opened(file.sha256) as content:
                yield file.path, content.read_at(0, MAX_BYTES).decode("utf-8", "replace")
        except (OSError, BlobMissing):
            continue


def declared_by(code: Mapping[str, str]) -> DeclaredByApp:
    """Read without running any of it."""
    named: dict[str, set[str] | None] = {"indicators": set(), "routes": set()}
    for path, text in code.items():
        if not path.endswith(".py"):
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return DeclaredByApp(None, None)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if not isinstance(call.func, ast.Attribute):
                continue
            kind = "indicators" if call.func.attr == "indicator" else "routes"
            if kind == "routes" and call.func.attr not in ROUTES:
                continue
            name = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            if kind == "routes" and not (isinstance(name, str) and name.startswith("/")):
                continue  # `{}.get(key)` and its like
            found = named[kind]
            if not isinstance(name, str):
                named[kind] = None
            elif found is not None:
                found.add(name)
    return DeclaredByApp(*(None if found is None else frozenset(found) for found in named.values()))
