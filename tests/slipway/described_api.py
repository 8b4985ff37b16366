"""A server that answers every request by the examples of docs/openapi.yaml; and all commands to ask it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import typer
import yaml
from typer.core import TyperCommand, TyperGroup

from slipway.cli import app

OPENAPI = Path(__file__).parents[2] / "docs/openapi.yaml"
ROOT = "/api/v1"


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    pattern: re.Pattern[str]
    spec: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def reason(self) -> str:
        """`required`, `optional`, or empty where it takes none."""
        for one in self.spec.get("parameters", ()):
            if one.get("name") == "reason":
                return "required" if one.get("required") else "optional"
        content = self.spec.get("requestBody", {}).get("content", {})
        body = resolved(content.get("application/json", {}).get("schema", {}))
        if "reason" not in body.get("properties", {}):
            return ""
        return "required" if "reason" in body.get("required", ()) else "optional"

    @property
    def answer(self) -> httpx2.Response:
        status, said = next((code, one) for code, one in self.spec["responses"].items() if code[0] == "2")
        for kind, content in said.get("content", {}).items():
            if examples := content.get("examples"):
                value = next(iter(examples.values()))["value"]
                if isinstance(value, list) and resolved(content["schema"]).get("type") != "array":
                    # drf-spectacular takes a GET without an id for a list.
                    (value,) = value
                return httpx2.Response(int(status), json=value, headers={"ETag": '"1"'})
            return httpx2.Response(int(status), text="{}", headers={"Content-Type": kind})
        return httpx2.Response(int(status))


@cache
def document() -> dict[str, Any]:
    read: dict[str, Any] = yaml.load(OPENAPI.read_text(), Loader=yaml.CSafeLoader)
    return read


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


@cache
def operations() -> tuple[Operation, ...]:
    """Return the operations, fewest parameters first: `/images/fit/` is no image."""
    found = [
        Operation(method.upper(), path, re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), spec)
        for path, methods in document()["paths"].items()
        for method, spec in methods.items()
        if method in ("get", "post", "put", "patch", "delete")
    ]
    return tuple(sorted(found, key=lambda one: one.path.count("{")))


@dataclass
class DescribedApi(httpx2.BaseTransport):
    """Keeps what it was asked, with the operation that each request reached."""

    sent: list[tuple[Operation, httpx2.Request]] = field(default_factory=list)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        for one in operations():
            if one.method == request.method and one.pattern.fullmatch(request.url.path):
                self.sent.append((one, request))
                answer = one.answer
                answer.request = request
                return answer
        raise AssertionError(f"no such operation: {request.method} {request.url.path}")


def commands() -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    """Every command that a person finds, by its words."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return _below(root, ())


def _below(group: TyperGroup, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _below(command, (*words, name))
        elif not command.hidden:
            assert isinstance(command, TyperCommand)
            yield (*words, name), command
