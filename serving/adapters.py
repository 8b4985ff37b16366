"""LoRA adapters of a worker: those in its version's files, and those that a file names while it runs.

The file is written by the cluster's backend: `{"NAME": {"version": "MODEL:VERSION", "directory": "/..."}}`.
Because it outlives the worker, a restarted one has the same adapters before it takes requests, whether or
not the control plane is there.
"""

import asyncio
import json
import logging
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.engines.base import Engine, EngineError
from serving.openai import RequestFault
from serving.protocol import AdapterReport

log = logging.getLogger(__name__)

ADAPTERS = "adapters"
"""Folder of a version with its LoRA adapters, each a directory in PEFT's layout."""
CONFIG = "adapter_config.json"
LOOK_EVERY_SECONDS = 0.5
FILE_WITHIN_SECONDS = 60.0
"""A worker that begins waits so long for its file: in a pod another container writes it."""


@dataclass(frozen=True, slots=True)
class NamedAdapter:
    version: str
    directory: Path


class AdapterFollower:
    """Keeps the adapters of an engine as the file says. One that is refused is tried again when the file
    names another version for it."""

    def __init__(self, engine: Engine, *, model_dir: Path, file: Path | None) -> None:
        self._engine = engine
        self._own = model_dir / ADAPTERS
        self._file = file
        self._text = b""
        self._tried: dict[str, NamedAdapter] = {}
        self._problems: dict[str, str] = {}

    @property
    def reports(self) -> tuple[AdapterReport, ...]:
        return tuple(
            AdapterReport(name=name, version=one.version, problem=self._problems.get(name, "")[:500])
            for name, one in sorted(self._tried.items())
        )

    async def start(self) -> None:
        """Load what the version brings, then what the file names. Raises RequestFault, EngineError for the
        former alone: a version is whole or not at all."""
        for path in sorted(self._own.glob(f"*/{CONFIG}")):
            await self.load_own(path.parent.name)
        end = time.monotonic() + FILE_WITHIN_SECONDS
        while self._file is not None and not self._file.exists() and time.monotonic() < end:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        await self.look()

    async def load_own(self, name: str) -> None:
        """Load an adapter of the version's files. Raises RequestFault, EngineError."""
        if not (self._own / name / CONFIG).is_file():
            raise RequestFault(
                404, f"The version has no adapter {ADAPTERS}/{name} with {CONFIG}", param="name"
            )
        await self._engine.load_adapter(name, self._own / name)

    async def unload(self, name: str) -> None:
        """Raises RequestFault, EngineError."""
        if name not in self._engine.adapters:
            raise RequestFault(404, f"No adapter {name!r} is loaded", param="name")
        await self._engine.unload_adapter(name)

    async def run(self) -> None:
        """Follow the file."""
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Load and unload what the file has others of now."""
        if self._file is None or (wanted := self._read(self._file)) is None:
            return
        for name in [name for name, one in self._tried.items() if wanted.get(name) != one]:
            if name not in self._problems:
                await self._try(name, self._engine.unload_adapter(name))
            self._tried.pop(name)
            self._problems.pop(name, None)
        for name, one in wanted.items():
            if name not in self._tried:
                self._tried[name] = one
                if name in self._engine.adapters:
                    self._problems[name] = "The version of the model brings an adapter of this name"
                else:
                    await self._try(name, self._engine.load_adapter(name, one.directory))

    async def _try(self, name: str, change: Coroutine[Any, Any, None]) -> None:
        try:
            await change
        except (RequestFault, EngineError) as error:
            self._problems[name] = str(error)
            log.warning("adapter %s: %s", name, error)
        else:
            log.info("adapters: %s", ", ".join(sorted(self._engine.adapters)) or "none")

    def _read(self, file: Path) -> Mapping[str, NamedAdapter] | None:
        """Return what it names; None: as before."""
        try:
            text = file.read_bytes()
        except FileNotFoundError:
            text = b"{}"
        if text == self._text:
            return None
        self._text = text
        return {
            name: NamedAdapter(one["version"], Path(one["directory"]))
            for name, one in json.loads(text).items()
        }
