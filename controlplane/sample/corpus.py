"""Real English text found on any Python machine: the standard library's docstrings and `help()` topics."""

import ast
import re
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

# Not the library itself, or wordy about nothing but widgets and build steps.
_SKIPPED = frozenset(
    {
        "dist-packages",
        "distutils",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
    }
    | {"tkinter", "turtle.py", "turtledemo"}
)
_NOT_PROSE = (">>>", "...", "$", "|", "+-", "---", "===", "#")
_SHORTEST = 40
_LONGEST = 2_000


@dataclass(frozen=True)
class Passage:
    """Writes a paragraph of prose. `subject` is what it explains, as in `json.dumps` or the topic `assert`;
    `first` tells whether it opens its docstring, which is where the subject is explained."""

    subject: str
    text: str
    first: bool


def passages() -> tuple[Passage, ...]:
    """Every paragraph of English prose, once, in an order that is the same on every run."""
    seen: set[str] = set()
    found: list[Passage] = []
    for subject, document in _documents():
        for index, paragraph in enumerate(re.split(r"\n\s*\n", document)):
            text = _prose(paragraph)
            if text and text not in seen:
                seen.add(text)
                found.append(Passage(subject, text, first=index == 0))
    return tuple(found)


def _documents() -> Iterator[tuple[str, str]]:
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        relative = path.relative_to(library)
        if _SKIPPED.isdisjoint(relative.parts):
            yield from _docstrings(path, ".".join(relative.with_suffix("").parts).removesuffix(".__init__"))
    yield from sorted(topics.items())


def _docstrings(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # some files of the library are wrong on purpose
    if docstring := ast.get_docstring(tree):
        yield module, docstring
    yield from _within(tree, module)


def _within(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{name}.{child.name}"
            if docstring := ast.get_docstring(child):
                yield inner, docstring
            yield from _within(child, inner)


def _prose(paragraph: str) -> str:
    """The paragraph on one line, or nothing when it is code, a table or a list of names."""
    lines = [line.strip() for line in paragraph.splitlines()]
    if any(line.startswith(_NOT_PROSE) for line in lines):
        return ""
    text = " ".join(re.sub(r"[*`]+", "", " ".join(lines)).split())
    letters = sum(character.isalpha() or character in " ,.'" for character in text)
    if not _SHORTEST <= len(text) <= _LONGEST or letters < 0.94 * len(text):
        return ""
    return text if text.endswith((".", ":")) and text.count("_") < 2 else ""
