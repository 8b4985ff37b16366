"""Options of a server program: from the settings of a service or a version to its command line."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from serving.engines.spec import EngineSpec, ServerProgram
from serving.settings import SettingsError

_FLAG = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class ServerSettings:
    """`flags` become options of the server's program, true and false as it has flags."""

    flags: Mapping[str, Any]
    load_timeout_seconds: float = 1_800.0

    @classmethod
    def read(cls, data: Mapping[str, Any], spec: EngineSpec, *, where: str) -> Self:
        """Read a JSON object of options, with `-` or `_` in their names, and `load_timeout_seconds`.
        Raises SettingsError.
        """
        program = program_of(spec)
        flags = {str(name).replace("_", "-"): value for name, value in spec.unaliased(data).items()}
        timeout = flags.pop("load-timeout-seconds", cls.load_timeout_seconds)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 1 <= timeout <= 86_400:
            raise SettingsError(f"{where}: load_timeout_seconds must be from 1 to 86400")
        for name, value in flags.items():
            if not _FLAG.fullmatch(name):
                raise SettingsError(f"{where}: {name!r} is not the name of an option of {spec.name}")
            if _is_refused(program, name):
                raise SettingsError(
                    f"{where}: {name} is set by the worker or not allowed in a version's settings"
                )
            if value is None:
                raise SettingsError(f"{where}: {name} must not be null")
        return cls(flags=flags, load_timeout_seconds=float(timeout))

    def arguments(self, program: ServerProgram) -> list[str]:
        arguments: list[str] = []
        for name, value in self.flags.items():
            option = name.replace("-", "_") if program.underscores else name
            if value is False and program.false_option == "left out":
                continue
            if isinstance(value, bool):
                arguments.append(f"--{option}" if value else f"--no-{option}")
            elif isinstance(value, list):
                arguments += [f"--{option}", *map(str, value)]
            else:
                text = json.dumps(value) if isinstance(value, dict) else str(value)
                arguments += option_with(program, option, text)
        return arguments


def program_of(spec: EngineSpec) -> ServerProgram:
    if spec.program is None:
        raise SettingsError(f"the engine {spec.name} is no server program")
    return spec.program


def slots_option(server: ServerProgram, slots: int) -> list[str]:
    option = server.slots_option.replace("-", "_") if server.underscores else server.slots_option
    return option_with(server, option, str(slots)) if option else []


def option_with(server: ServerProgram, option: str, value: str) -> list[str]:
    return [f"--{option}", value] if server.separate_values else [f"--{option}={value}"]


def _is_refused(program: ServerProgram, name: str) -> bool:
    """Some programs take the beginning of an option for all of it."""
    words = program.refused.split("|")
    return bool(re.fullmatch(program.refused, name)) or any(word.startswith(name) for word in words)
