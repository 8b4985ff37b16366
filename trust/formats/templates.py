"""Chat templates: Jinja that an engine renders for every request. Here they are parsed, never rendered."""

from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

SUFFIX = ".jinja"
MAX_BYTES = 256 * 1024
MAX_DEPTH = 60
MAX_TEMPLATES = 20
_FILTERS = frozenset(
    ("abs", "batch", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float",
     "groupby", "indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min",
     "reject", "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort",
     "string", "sum", "title", "tojson", "trim", "truncate", "unique", "upper", "urlencode", "wordcount")
)  # fmt: skip
_METHODS = frozenset(
    ("append", "capitalize", "count", "endswith", "extend", "find", "get", "index", "insert", "items",
     "join", "keys", "lower", "lstrip", "pop", "removeprefix", "removesuffix", "replace", "reverse",
     "rfind", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title", "update", "upper",
     "values", "zfill")
)  # fmt: skip
"""Of texts, lists and objects; `format` is not among them: it reaches attributes by name."""
_FUNCTIONS = frozenset(
    ("caller", "cycler", "dict", "joiner", "lipsum", "loop", "namespace", "raise_exception", "range",
     "strftime_now")
)  # fmt: skip
_LOADS = (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)


class _Generation(Extension):
    """`{% generation %}` of transformers, which marks what the assistant says."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


_ENVIRONMENT = Environment(  # noqa: S701 (nothing is rendered)
    extensions=["jinja2.ext.loopcontrols", _Generation]
)


def templates_in(value: Any) -> list[str]:
    """The texts of `chat_template` in a JSON value: one, or a list of named ones."""
    told = value.get("chat_template") if isinstance(value, dict) else None
    if isinstance(told, dict):
        told = list(told.values())
    listed = told if isinstance(told, list) else [told]
    found = [one.get("template") if isinstance(one, dict) else one for one in listed]
    return [one for one in found if isinstance(one, str)]


def doubts(source: str) -> list[tuple[int | None, str]]:
    """Return unusual parts of a template, each with its line where that is known."""
    if len(source.encode("utf-8", "replace")) > MAX_BYTES:
        return [(None, f"The chat template is larger than {MAX_BYTES // 1024} KiB; it was not looked at.")]
    try:
        tree = _ENVIRONMENT.parse(source)
        return sorted(set(_doubts(tree)), key=lambda doubt: (doubt[0] or 0, doubt[1]))
    except TemplateError as error:
        said = (error.message or type(error).__name__)[:200]
        return [(getattr(error, "lineno", None), f"The chat template does not parse: {said}")]
    except (RecursionError, _TooDeep):
        return [(None, "The chat template is nested too deeply to be looked at.")]
    except (ValueError, SyntaxError, OverflowError) as error:
        return [(None, f"The chat template does not parse: {str(error)[:200]}")]


class _TooDeep(Exception):
    pass


def _walk(tree: nodes.Node) -> Iterator[nodes.Node]:
    level, depth = [tree], 0
    while level:
        if (depth := depth + 1) > MAX_DEPTH:
            raise _TooDeep
        yield from level
        level = [child for node in level for child in node.iter_child_nodes()]


def _doubts(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    found = list(_walk(tree))
    macros = {node.name for node in found if isinstance(node, nodes.Macro)}
    for node in found:
        if isinstance(node, _LOADS):
            yield node.lineno, "The chat template loads another template."
        elif isinstance(node, nodes.Filter) and node.name not in _FILTERS:
            yield node.lineno, f"The chat template uses the filter '{node.name[:60]}'."
        elif isinstance(node, nodes.Call):
            yield from _of_call(node, macros)
        for name in _attributes(node):
            yield node.lineno, f"The chat template reaches for '{name[:60]}'."


def _of_call(node: nodes.Call, macros: set[str]) -> Iterator[tuple[int, str]]:
    called = node.node
    if isinstance(called, nodes.Getattr) and called.attr not in _METHODS and not called.attr.startswith("_"):
        yield node.lineno, f"The chat template calls the method '{called.attr[:60]}'."
    if isinstance(called, nodes.Name) and called.name not in _FUNCTIONS | macros:
        yield node.lineno, f"The chat template calls '{called.name[:60]}'."


def _attributes(node: nodes.Node) -> Iterator[str]:
    """Yield names that begin with an underscore, as no message or tool has: attributes, subscripts or any
    text.
    """
    if isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
        yield node.attr
    if isinstance(node, nodes.Const) and isinstance(node.value, str) and node.value.startswith("__"):
        yield node.value
