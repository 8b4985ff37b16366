"""The control plane as a load generator in a cluster sees it: its order, and where its results go."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.jobs.remote import BYTES, JobOrder

PATH = "/api/v1/benchmark-load/"


class ControlPlaneOrder(JobOrder):
    path = PATH

    def hand_in(self, records: Path, result: Mapping[str, Any]) -> None:
        """Raises OrderRefused, OSError."""
        if records.exists():
            self._asked("PUT", "records/", records, content=BYTES)
        self._asked("PUT", "result/", json.dumps(result).encode())
