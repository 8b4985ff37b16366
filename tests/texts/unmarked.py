"""Strings that a person would read and no catalogue can reach.

What counts as one is decided by where it stands, not by what it says: text and labels of a template, labels
of a form or a state, the sentence of an error, a string of ours in a script. A line with `untranslated` in a
comment is left as it is: names of products, words for programs.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

from babel.messages.jslexer import tokenize
from django.template.base import Lexer, TokenType

from tests.texts import extraction
from tests.texts.rooms import ENGLISH, NOT_YET, UNSHOWN

WORDS = re.compile(r"[A-Za-z]{2,}")
PROSE = re.compile(r"[A-Za-z]{2,}[,;:.]? | [A-Za-z]{2,}")
MARKUP = re.compile(r"[<>]|=\"")
LEFT = "untranslated"
NAMES = re.compile(
    r"\b(Slipway|Hugging Face|ModelScope|Envoy|Valkey|Redis|Celery|GPUs?|GiB|CUDA|KV|RoPE|TTFT|TPOT|P95|p95|"
    r"sha256|"
    r"safetensors|S3|URL|JSON|CSV|HTTP|API|REST|UTC|vLLM|LoRA|SPDX|PyTorch|OpenAPI|cosign|Ed25519|ECDSA|PEM|"
    r"min|ms|req|tok)\b"
)
"""What has no other name in another language."""
_ATTRIBUTE = re.compile(r'[\w-]+="[^"]*"')
"""In a block that a tag takes in."""
ATTRIBUTES = {"title", "placeholder", "aria-label", "aria-description", "aria-valuetext", "alt", "label"}
KEYS = {"Enter", "Escape", "Tab"}
NOT_TEXT = {"script", "style", "code", "kbd", "pre", "svg", "template"}
TAGS_WITHOUT_WORDS = {
    "block",
    "endblock",
    "extends",
    "include",
    "load",
    "url",
    "static",
    "icon",
    "state",
    "partial",
    "partialdef",
    "endpartialdef",
    "if",
    "elif",
    "for",
    "translate",
    "trans",
    "blocktranslate",
    "blocktrans",
    "comment",
    "digest",
}
CALLS_WITH_WORDS = {
    "done": (1, 2),
    "refused": (1, 2),
    "add_message": (2,),
    "add_error": (1,),
    "Badge": (0,),
    "SearchSource": (0,),
    "Subject": (1,),
    "WebhookEventType": (1,),
    "SearchInput": (0,),
    "register": (),
    "Http404": (0,),
    "PermissionDenied": (0,),
    "Figure": (0,),
    "Series": (0,),
    "Limit": (0,),
    "Chart": (0,),
}
KEYWORDS_WITH_WORDS = {
    "label",
    "help_text",
    "verbose_name",
    "verbose_name_plural",
    "empty_label",
    "title",
    "advice",
    "text",
    "says",
    "placeholder",
    "consequences",
    "message",
    "violation_error_message",
    "error_messages",
    "description",
    "unit_name",
}
ERROR_BASES = {
    "SlipwayError",
    "Missing",
    "NotAllowed",
    "Conflict",
    "Stale",
    "Unavailable",
    "Invalid",
    "ValidationError",
}
MARKS = set(extraction.PYTHON_KEYWORDS) | {"format_lazy"}


def faults() -> Iterator[str]:
    errors = _error_classes()
    by_kind: tuple[tuple[list[Path], Callable[[str], Iterator[tuple[int, str]]]], ...] = (
        (extraction.template_files(), template_faults),
        (_python(rest=False), partial(python_faults, errors=errors)),
        (_python(rest=True), partial(python_faults, errors=errors, describes_rest=True)),
        (_shown(), glued),
        (extraction.script_files(), script_faults),
    )
    for paths, of_file in by_kind:
        for path in paths:
            name = extraction.named(path)
            if name.startswith((*ENGLISH, *NOT_YET)):
                continue
            source = path.read_text()
            lines = source.splitlines()
            for line, text in of_file(source):
                if LEFT not in lines[line - 1]:
                    yield f"{name}:{line}: not marked: {text!r}"


def _python(*, rest: bool) -> list[Path]:
    return [path for path in extraction.python_files() if ("api" in path.parts) == rest]


def _shown() -> list[Path]:
    return [path for path in _python(rest=False) if not extraction.named(path).startswith(UNSHOWN)]


def glued(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of f-strings that read like a sentence: no catalogue can turn its words round."""
    tree = ast.parse(source)
    apart: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            # Names of rows in logs and audit, errors of programs; those for people are found by their class.
            case ast.FunctionDef(name="__str__" | "__repr__") | ast.Raise():
                apart.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node not in apart:
            parts = [str(part.value) for part in node.values if isinstance(part, ast.Constant)]
            if any(map(MARKUP.search, parts)):
                continue
            if any(PROSE.search(NAMES.sub("", part)) for part in parts):
                yield node.lineno, ast.unparse(node)


def says_something(text: str) -> bool:
    return bool(WORDS.search(NAMES.sub("", text)))


def template_faults(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of what stands in a template outside of `translate` and `blocktranslate`."""
    html, in_block, comment = [], False, False
    for token in Lexer(source).tokenize():
        lines = token.contents.count("\n") if token.token_type is not TokenType.TEXT else 0
        tag = token.contents.split(None, 1)[0] if token.contents.strip() else ""
        if token.token_type is TokenType.TEXT:
            html.append("\n" * token.contents.count("\n") if in_block or comment else token.contents)
            continue
        if token.token_type is TokenType.BLOCK:
            in_block = (in_block or tag in ("blocktranslate", "blocktrans")) and not tag.startswith(
                "endblocktrans"
            )
            comment = (comment or tag == "comment") and tag != "endcomment"
        if token.token_type in (TokenType.BLOCK, TokenType.VAR) and tag not in TAGS_WITHOUT_WORDS:
            yield from ((token.lineno, text) for text in _arguments(token.contents))
        html.append("{" + "\n" * lines + "}")
    reader = _Reader()
    reader.feed("".join(html))
    reader.close()
    yield from reader.found


def _arguments(contents: str) -> Iterator[str]:
    """Constants of a tag that read like words: more than one, or one with a capital."""
    for match in re.finditer(r"""(?<![\w(])(?:"([^"]*)"|'([^']*)')(?!\))""", contents):
        text = match.group(1) or match.group(2) or ""
        before = contents[: match.start()]
        if re.search(r"(==|!=|\bin|\|\w+:)\s*$", before) or before.endswith("_("):
            continue
        if (
            re.match(r"[A-Z]\w*[a-z]|[\w,.'-]+ [\w,.'-]+", text)
            and says_something(text)
            and not text.startswith("/")
        ):
            yield text


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[int, str]] = []
        self.within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in NOT_TEXT:
            self.within.append(tag)
        for name, value in attrs:
            if name in ATTRIBUTES and value and says_something(value):
                self.found.append((self.getpos()[0], value))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.within:
            while self.within.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        data = _ATTRIBUTE.sub("", data)
        if not self.within and says_something(data):
            before = data[: len(data) - len(data.lstrip())].count("\n")
            self.found.append((self.getpos()[0] + before, " ".join(data.split())))


def python_faults(
    source: str, errors: set[str], *, describes_rest: bool = False
) -> Iterator[tuple[int, str]]:
    """(line, text) of strings where people read them: errors, labels, messages, states.

    `describes_rest`: what documents fields and operations of REST is read in English.
    """
    tree = ast.parse(source)
    for form in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        yield from _unlabelled(form)
    for node in ast.walk(tree):
        match node:
            case ast.Raise(exc=ast.Call(func=func, args=args, keywords=keywords)) if _name(func) in errors:
                yield from _words([*args, *(word.value for word in keywords)])
            case ast.Call(func=func, args=args) if _name(func) in CALLS_WITH_WORDS:
                places = CALLS_WITH_WORDS[_name(func)]
                yield from _words([args[place] for place in places if place < len(args)])
            case ast.ClassDef(bases=bases, body=body) if any(
                _name(base).endswith("Choices") for base in bases
            ):
                for value in (one.value for one in body if isinstance(one, ast.Assign)):
                    if isinstance(value, ast.Tuple):
                        yield from _words(value.elts[1:])
                    elif not _is_marked(value):
                        yield value.lineno, f"{ast.unparse(value)} without a label"
            case ast.Call(func=func, args=[argument, *_]) if _name(func) in MARKS and isinstance(
                argument, ast.JoinedStr
            ):
                yield argument.lineno, f"{ast.unparse(argument)}: a placeholder has to be %(name)s"
            case ast.keyword(arg=arg, value=value) if arg in KEYWORDS_WITH_WORDS and not describes_rest:
                yield from _words([value])


def _unlabelled(form: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Fields that would be called by their key."""
    for node in form.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(ast.Name("forms"), attr), keywords=keywords),
            ) if attr.endswith("Field") and not {"label", "widget=hidden"} & _kinds(keywords):
                yield node.lineno, f"{name} without a label"


def _kinds(keywords: list[ast.keyword]) -> set[str]:
    """Names of what a field is given; that it is hidden, too."""
    hidden = {"widget=hidden" for word in keywords if word.arg == "widget" and "Hidden" in ast.unparse(word)}
    return hidden | {word.arg or "" for word in keywords}


def _words(values: list[ast.expr]) -> Iterator[tuple[int, str]]:
    """Strings in these expressions that no mark encloses."""
    for value in values:
        if _is_marked(value):
            continue
        match value:
            case ast.Constant(value=str(text)) if says_something(text):
                yield value.lineno, text
            case ast.JoinedStr(values=parts):
                if any(isinstance(part, ast.Constant) and says_something(str(part.value)) for part in parts):
                    yield value.lineno, ast.unparse(value)
            case ast.BinOp(left=left, right=right):
                yield from _words([left] if isinstance(value.op, ast.Mod) else [left, right])
            case ast.IfExp(body=body, orelse=other):
                yield from _words([body, other])
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                yield from _words(elements)
            case ast.Dict(values=inside):
                yield from _words(inside)
            case ast.BoolOp(values=inside):
                yield from _words(inside)


def _is_marked(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and _name(value.func) in MARKS


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _name(inner)
    return ""


def _error_classes() -> set[str]:
    """Names of the errors whose text a door passes on."""
    found = set(ERROR_BASES)
    classes = [
        node
        for path in extraction.python_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    while True:
        more = {one.name for one in classes if any(_name(base) in found for base in one.bases)} - found
        if not more:
            return found
        found |= more


def script_faults(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of string literals with several words, which no call of gettext encloses."""
    tokens = [token for token in tokenize(source) if token.type not in ("linecomment", "multilinecomment")]
    for position, token in enumerate(tokens):
        if token.type not in ("string", "template_string"):
            continue
        text = re.sub(r"\$\{[^}]*\}", "", token.value[1:-1])
        calls = [one.value for one in tokens[max(0, position - 4) : position]]
        if any(keyword in calls for keyword in extraction.SCRIPT_KEYWORDS) and "(" in calls:
            continue
        if text in KEYS:
            continue
        if re.match(r"[A-Z][a-z]+( [a-z]+|[.!?]|$)|[a-z]+ [a-z]+ [a-z]+|not [a-z]+$", text.strip()):
            yield token.lineno, token.value
