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
    try:
        trees = [ast.parse(text) for path, text in code.items() if path.endswith(".py")]
    except (SyntaxError, ValueError, RecursionError):
        return DeclaredByApp(None, None)
    calls = [
        (node.func.attr, _first_text(node))
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    indicators = {name for method, name in calls if method == "indicator"}
    # `{}.get(key)` and its like are no routes.
    routes = {name for method, name in calls if method in ROUTES and name and name.startswith("/")}
    known = frozenset(name for name in indicators if name is not None)
    return DeclaredByApp(None if None in indicators else known, frozenset(routes))


def _first_text(call: ast.Call) -> str | None:
    """Return the first argument of a call; None: it is no literal text."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
