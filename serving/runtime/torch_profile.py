"""A profile of a model's process, taken by torch's profiler while it serves."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any


class TorchProfile:
    """A profile of this process that is being taken. Raises ImportError where it does not use torch."""

    def __init__(self, seconds: float) -> None:
        if (torch := sys.modules.get("torch")) is None:
            raise ImportError("the model's process does not use torch")
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler: Any = torch.profiler.profile(activities=activities)
        self._profiler.start()
        self.ends_at = time.monotonic() + seconds

    def trace(self) -> bytes:
        """End it. Returns Chrome's trace format, compressed by gzip."""
        self._profiler.stop()
        with tempfile.TemporaryDirectory() as place:
            path = Path(place, "trace.json.gz")
            self._profiler.export_chrome_trace(str(path))
            return path.read_bytes()
