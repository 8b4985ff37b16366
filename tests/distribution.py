"""pytest plugin: which tests one process of several runs, so that what is dear to start is started once, and
how long each may take.

The tests of a file go together; so do those of the rooms below, whose fixtures take longer than their tests.
"""

import gc
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.postgres import uses_database

ROOMS = (
    ("tests/sample/", "tests/serving/"),  # torch, a trained model, and those that are served
    ("tests/production/",),  # one site
    ("tests/console/",),  # one console server and its browser
    # one whole stack
    (
        "tests/e2e/test_client_keys.py",
        "tests/e2e/test_console.py",
        "tests/e2e/test_main_path.py",
        "tests/e2e/test_pipelines.py",
        "tests/e2e/test_whole_stack.py",
    ),
)
"""The longest first, as they are begun: all others fill the time until the last of these ends."""
DEAR = {"stack", "browser", "process", "slow"}
TIMEOUT_SECONDS = {"slow": 600, "stack": 240, "browser": 180, "process": 180}
"""The limit of a test without one of its own, by its first mark of these; without any, `PLAIN_SECONDS`.
Far more than any takes on two quiet cores, far less than a person would wait for a test that hangs."""
PLAIN_SECONDS = 90


# What is loaded is no garbage: while it is, nobody looks for any, and afterwards nobody looks at it again.
gc.disable()


class ByRoom(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        number = room_of(nodeid)
        return ROOMS[number][0] if number < len(ROOMS) else super()._split_scope(nodeid)


def room_of(nodeid: str) -> int:
    """Its number; that after the last for what is in none."""
    return next((number for number, room in enumerate(ROOMS) if nodeid.startswith(room)), len(ROOMS))


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByRoom | None:
    return ByRoom(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 10, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rerun-waiting",
        action="store_true",
        help="a failed test that waits for processes, a browser or threads is run once more, named as RERUN",
    )
    parser.addoption(
        "--note-files",
        metavar="DIRECTORY",
        help="write there the names of files with tests of each kind in NOTED",
    )
    parser.addoption(
        "--only-files",
        metavar="FILE",
        help="read those test files alone that this one names, one a line",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    listed = config.getoption("--only-files")
    if listed is None or not collection_path.match("test_*.py"):
        return None
    return None if str(collection_path.relative_to(config.rootpath)) in names_in(listed) else True


@cache
def names_in(file: str) -> frozenset[str]:
    return frozenset(Path(file).read_text().splitlines())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Nothing has been left out by its marks yet.
    if (place := config.getoption("--note-files")) and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        for name, is_noted in NOTED.items():
            files = sorted({str(item.path.relative_to(config.rootpath)) for item in items if is_noted(item)})
            Path(place, name).write_text("\n".join(files))
    items.sort(key=lambda item: room_of(item.nodeid))
    for item in items:
        if not config.getoption("timeout") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(timeout_seconds(item)))
    if config.getoption("--rerun-waiting"):
        for item in items:
            if is_dear(item) or waits_for_threads(item):
                item.add_marker(pytest.mark.flaky(reruns=1))


def timeout_seconds(item: pytest.Item) -> int:
    marks = {mark.name for mark in item.iter_markers()}
    return next((seconds for mark, seconds in TIMEOUT_SECONDS.items() if mark in marks), PLAIN_SECONDS)


def is_dear(item: pytest.Item) -> bool:
    return any(mark.name in DEAR for mark in item.iter_markers())


def waits_for_threads(item: pytest.Item) -> bool:
    """Its file waits for what comes in its own time, which a busy machine may delay."""
    return isinstance(item, pytest.Function) and hasattr(item.module, "eventually")


def asks_any_database(item: pytest.Item) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    return uses_database(item) and ("every_database" in marks or "any_database" not in marks)


NOTED: dict[str, Callable[[pytest.Item], bool]] = {"processes": is_dear, "database": asks_any_database}
"""By the name of its list: the kind of tests whose files a later run needs."""
