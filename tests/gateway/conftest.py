from collections.abc import Iterator
from pathlib import Path

import pytest

from perf.envoy_stack import EnvoyStack


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[EnvoyStack]:
    """A running Envoy without routes."""
    one = EnvoyStack(tmp_path)
    try:
        one.start()
        yield one
    finally:
        one.stop()
