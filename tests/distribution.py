"""pytest plugin: which tests one process of several runs, so that what is dear to start is started once.

The tests of a file go together; so do those of the rooms below, whose fixtures take longer than their tests.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

ROOMS = ("tests/console/", "tests/sample/", "tests/serving/")
"""One console server and its browser; one trained model; torch, and the models that it serves."""


class ByRoom(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return next((room for room in ROOMS if nodeid.startswith(room)), super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByRoom | None:
    return ByRoom(config, log) if config.getoption("dist") == "loadfile" else None
