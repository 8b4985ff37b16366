"""Processes that a test has started, and what they started, found by a mark that all of them inherit."""

import psutil

MARK = "SLIPWAY_TEST_MARK"


def living(mark: str) -> list[psutil.Process]:
    """Return the living processes of this mark, whoever their parents are now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
