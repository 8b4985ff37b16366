"""Errors of task graphs: in their programs, in their plans, in their items."""

import sys
from pathlib import Path

_OWN = (str(Path(__file__).parent), str(Path(__file__).parents[2] / "slipway" / "graph.py"), "<string>")


class GraphError(Exception):
    """The graph, its plan or its input cannot be meant so; the text says where and what would be right."""


class ItemFailed(Exception):
    """An item's result cannot be made; the text is the reason."""


class ItemExpired(ItemFailed):
    """Its deadline has passed."""


class EntryFull(ItemFailed):
    """The queue is full: as many items wait as the plan allows."""


class ItemForgotten(GraphError):
    """The item, or its inputs, are no longer kept."""


def user_line() -> tuple[str, int]:
    """The file and line of the user's code that called into this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return Path(frame.f_code.co_filename).name, frame.f_lineno


def refused(reason: str, where: tuple[str, int] | None = None) -> GraphError:
    """The error of a program, with the line that is at fault."""
    file, line = where or user_line()
    return GraphError(f"{file}, line {line}: {reason}")
