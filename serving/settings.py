"""Settings as frozen dataclasses, read from JSON with every refusal in words.

A version may carry a `slipway.json` beside its weights:

    {"engines": {"vllm": {"max-model-len": 8192}},
     "serving": {"delay_ms": 300, "fail_share": 0.1}}

`engines` holds settings per engine, which the worker's own `--settings` override key by key. `serving`
holds faults to inject (see `serving.faults`). Keys that nothing reads are refused: a typing mistake must
not silently serve something else than was meant.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from serving.engines.registry import WORKER_ENGINES

VERSION_FILE = "slipway.json"
T = TypeVar("T")


class SettingsError(ValueError):
    """A setting that cannot be meant; the text names where it stands and what would be right."""


@dataclass(frozen=True)
class Range:
    """Bounds of a number, both included."""

    low: float
    high: float


def read_settings(kind: type[T], data: object, *, where: str) -> T:
    """An instance of the dataclass `kind` from a JSON object. Raises SettingsError.

    Fields are `bool`, `int`, `float` or `str`, optionally `Annotated[..., Range(low, high)]`.
    """
    if not isinstance(data, Mapping):
        raise SettingsError(f"{where} must be a JSON object")
    hints = get_type_hints(kind, include_extras=True)
    if unknown := sorted(str(key) for key in data if key not in hints):
        raise SettingsError(
            f"{where} does not know {', '.join(unknown)}; it knows {', '.join(sorted(hints))}"
        )
    values = {key: _checked(value, hints[key], f"{where}: {key}") for key, value in data.items()}
    missing = [
        entry.name
        for entry in dataclasses.fields(kind)  # type: ignore[arg-type]
        if entry.name not in values
        and entry.default is dataclasses.MISSING
        and entry.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise SettingsError(f"{where} needs {', '.join(missing)}")
    return kind(**values)


def _checked(value: object, hint: Any, where: str) -> object:
    bounds: Range | None = None
    if get_origin(hint) is Annotated:
        hint, bounds = get_args(hint)
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint:
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[hint]
        raise SettingsError(f"{where} must be {words}")
    if bounds is not None and not bounds.low <= value <= bounds.high:  # type: ignore[operator]
        raise SettingsError(f"{where} must be from {bounds.low:g} to {bounds.high:g}")
    return value


@dataclass(frozen=True)
class VersionSettings:
    """Contents of `slipway.json`: raw settings per engine, and the raw faults."""

    engines: Mapping[str, Mapping[str, Any]]
    serving: Mapping[str, Any]

    @classmethod
    def beside(cls, model_dir: Path) -> "VersionSettings":
        """Read the file of a version's directory; empty when there is none. Raises SettingsError."""
        path = model_dir / VERSION_FILE
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError:
            return cls(engines={}, serving={})
        except (OSError, ValueError) as error:
            raise SettingsError(f"{VERSION_FILE} cannot be read: {error}") from None
        if not isinstance(document, dict):
            raise SettingsError(f"{VERSION_FILE} must be a JSON object")
        for name, known in (("", ("engines", "serving")), ("engines", WORKER_ENGINES)):
            part = document.get(name, {}) if name else document
            if not isinstance(part, dict):
                raise SettingsError(f"{VERSION_FILE}: {name} must be a JSON object")
            if unknown := sorted(set(part) - set(known)):
                where = f"{VERSION_FILE}: {name}" if name else VERSION_FILE
                raise SettingsError(
                    f"{where} does not know {', '.join(unknown)}; it knows {', '.join(known)}"
                )
        engines = document.get("engines", {})
        for name, settings in engines.items():
            if not isinstance(settings, dict):
                raise SettingsError(f"{VERSION_FILE}: engines: {name} must be a JSON object")
        return cls(engines=engines, serving=document.get("serving", {}))
