"""Checkpoints of a training: whole or not at all, and rare enough to cost a twentieth of the time at most."""

import time
from pathlib import Path
from typing import Any

import torch

FILE = "training.pt"
SHARE = 20
"""So many times as long as a checkpoint took passes before the next."""


class TrainingCheckpoints:
    """`directory` None: none is kept."""

    def __init__(self, directory: Path | None) -> None:
        self._file = directory / FILE if directory else None
        self._due_at = 0.0

    def read(self) -> dict[str, Any] | None:
        """Return the last state that was kept; None: there is none."""
        if self._file is None or not self._file.exists():
            return None
        found: dict[str, Any] = torch.load(self._file, weights_only=True)
        return found

    @property
    def is_due(self) -> bool:
        return self._file is not None and time.monotonic() >= self._due_at

    def keep(self, state: dict[str, Any]) -> None:
        """Keep a state instead of the last; without room for it the training goes on without."""
        if self._file is None:
            return
        began, part = time.monotonic(), self._file.with_suffix(".part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            torch.save(state, part)
            part.replace(self._file)
        except (OSError, RuntimeError):  # torch tells of a full disk by either
            part.unlink(missing_ok=True)
        now = time.monotonic()
        self._due_at = now + SHARE * (now - began)
