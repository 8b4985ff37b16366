"""The nouns of `slipway`, a module or a package each.

`group_rule.py` is `slipway group-rule`, `gpu/finding.py` is `slipway gpu finding`. Each offers a Typer `app`,
and is imported when it is called, so that a command starts fast. An app whose only command is named as the
noun is that command: `slipway serve`.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, cast

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group_from_info
from typer.models import TyperInfo

ORDER = (
    "models", "alias", "images", "cluster", "node", "service", "release", "token", "store", "exemption",
    "source", "sync", "upload", "export", "signing", "quota", "webhook", "group-rule", "service-account",
    "credential", "gpu", "stuck", "serve", "finding",
)  # fmt: skip
"""The help lists these in this order, and others after them by name."""


Command = TyperGroup | TyperCommand


class Commands(Mapping[str, Command]):
    """The command groups by noun, each built when it is first asked for."""

    def __init__(self) -> None:
        self._nouns = _nouns(__path__)
        self._built: dict[str, Command] = {}

    def __getitem__(self, noun: str) -> Command:
        if noun not in self._nouns:
            raise KeyError(noun)
        if noun not in self._built:
            self._built[noun] = _built(__name__, noun)
        return self._built[noun]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nouns)

    def __len__(self) -> int:
        return len(self._nouns)


class Nouns(TyperGroup):
    """The root of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = Commands()  # type: ignore[assignment]


def _nouns(path: Sequence[str]) -> list[str]:
    found = {module.name.replace("_", "-") for module in iter_modules(path)}
    return [noun for noun in ORDER if noun in found] + sorted(found - set(ORDER))


def _built(package: str, noun: str) -> Command:
    module = import_module(f"{package}.{noun.replace('-', '_')}")
    if [command.name for command in module.app.registered_commands] == [noun]:
        return cast("TyperCommand", get_command(module.app))
    group = get_group_from_info(
        TyperInfo(module.app, name=noun),
        pretty_exceptions_short=True,
        suggest_commands=True,
        rich_markup_mode=None,
    )
    for below in _nouns(getattr(module, "__path__", ())):
        group.add_command(_built(module.__name__, below))
    return group
