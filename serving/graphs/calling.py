"""Calls of a task for a batch of items."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from serving.graphs.serial import reason_of_failure

Arguments = tuple[Any, ...]
"""Of the call for one item."""


class CallResult(NamedTuple):
    value: Any


class CallFailure(NamedTuple):
    reason: str


def call_batch(
    run: Callable[..., Any], calls: Sequence[Arguments], *, task: str, is_class: bool
) -> list[CallResult | CallFailure]:
    """Results of a batch. One that raises is run again in halves, so that only what cannot be answered
    fails. An exception in the place of a result fails that item alone."""
    if not calls:
        return []
    try:
        if not is_class:
            if len(calls) > 1:
                alone = (call_batch(run, [one], task=task, is_class=False) for one in calls)
                return [result for one in alone for result in one]
            return [CallResult(run(*calls[0]))]
        results = run(*map(list, zip(*calls, strict=True)))
        if len(results) != len(calls):
            items = "1 item" if len(calls) == 1 else f"{len(calls)} items"
            raise TypeError(f"run returned {len(results)} results for {items}")
        return [
            CallFailure(reason_of_failure(task, one)) if isinstance(one, Exception) else CallResult(one)
            for one in results
        ]
    except Exception as error:
        if len(calls) == 1:
            return [CallFailure(reason_of_failure(task, error))]
    middle = len(calls) // 2
    first, second = calls[:middle], calls[middle:]
    return [
        result for half in (first, second) for result in call_batch(run, half, task=task, is_class=is_class)
    ]
