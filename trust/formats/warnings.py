"""What an approver should know of a file that may enter: secrets in it, a chat template that is odd."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from model_store.reading import Content, MalformedContent
from trust.formats import code, gguf, secrets, templates
from trust.formats.text import parse_json

_TEXTS = {"text", "json", code.FORMAT}
_TEMPLATES_IN = {"tokenizer_config.json", "chat_template.json", "processor_config.json"}


@dataclass(frozen=True, slots=True)
class FileWarning:
    """`line` is of the file for a secret, of the template for a template; None where it is not known."""

    kind: Literal["secret", "template"]
    path: str
    line: int | None
    reason: str


def warnings_of(path: str, format: str, content: Content) -> tuple[FileWarning, ...]:
    """Return warnings about a file that `identification` found to be of that format: its texts are read
    once more.
    """
    found = [
        FileWarning("secret", path, line, f"It seems to hold {what}.")
        for line, what in (secrets.found_in(content) if format in _TEXTS else ())
    ]
    for template in _templates(path, format, content)[: templates.MAX_TEMPLATES]:
        doubts = templates.doubts(template)[: templates.MAX_TEMPLATES]
        found += [FileWarning("template", path, line, reason) for line, reason in doubts]
    return tuple(dict.fromkeys(found))


def _templates(path: str, format: str, content: Content) -> list[str]:
    name = PurePosixPath(path).name
    if format == "text" and name.endswith(templates.SUFFIX):
        # One byte more than is parsed tells that it is too large.
        return [content.read_at(0, templates.MAX_BYTES + 1).decode("utf-8", "replace")]
    try:
        if format == "json" and name in _TEMPLATES_IN:
            return templates.templates_in(parse_json(content))
        if format == "gguf":
            return gguf.chat_templates(
                content, most=templates.MAX_TEMPLATES, max_bytes=templates.MAX_BYTES + 1
            )
    except MalformedContent:
        return []
    return []
