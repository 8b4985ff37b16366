"""The nouns of `slipway`. The module of each is imported when it is called, so that a command starts fast."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, cast

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group_from_info
from typer.models import TyperInfo

NOUNS: Mapping[str, str] = {
    "models": "models",
    "alias": "aliases",
    "images": "images",
    "cluster": "clusters",
    "node": "drains",
    "service": "services",
    "release": "releases",
    "token": "tokens",
    "store": "store",
    "exemption": "exemptions",
    "source": "hub_sources",
    "sync": "hub_syncs",
    "upload": "uploads",
    "export": "exports",
    "signing": "signing",
    "quota": "quotas",
    "webhook": "webhooks",
    "group-rule": "group_rules",
    "service-account": "federation:accounts",
    "credential": "federation:credentials",
    "gpu": "gpu",
    "stuck": "stuck",
    "serve": "serve",
}
"""The module of each noun, in the order of the help, and its Typer app where that is not named `app`."""
BELOW: Mapping[str, Mapping[str, str]] = {
    "cluster": {"gateway": "cluster_gateway"},
    "gpu": {"finding": "gpu_findings", "check": "gpu_checks", "count": "gpu_counts", "drill": "gpu_drills"},
}
"""Nouns below another one."""
SINGLE = ("serve",)
"""Modules with one command that stands for itself."""


Command = TyperGroup | TyperCommand


class Commands(Mapping[str, Command]):
    """The command groups by noun, each built when it is first asked for."""

    def __init__(self) -> None:
        self._built: dict[str, Command] = {}

    def __getitem__(self, noun: str) -> Command:
        if noun not in self._built:
            self._built[noun] = _built(noun, NOUNS[noun])
            for name, place in BELOW.get(noun, {}).items():
                cast("TyperGroup", self._built[noun]).add_command(_built(name, place))
        return self._built[noun]

    def __iter__(self) -> Iterator[str]:
        return iter(NOUNS)

    def __len__(self) -> int:
        return len(NOUNS)


class Nouns(TyperGroup):
    """The root of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = Commands()  # type: ignore[assignment]


def _built(name: str, place: str) -> Command:
    module, _, attribute = place.partition(":")
    app = getattr(import_module(f"slipway.cli.{module}"), attribute or "app")
    if name in SINGLE:
        return cast("TyperCommand", get_command(app))
    return get_group_from_info(
        TyperInfo(app, name=name), pretty_exceptions_short=True, suggest_commands=True, rich_markup_mode=None
    )
