"""A task goes back to the request that has rung for it: its id goes along in a header of the message."""

from contextlib import ExitStack
from typing import Any

from celery.signals import before_task_publish, task_postrun, task_prerun

from common.logs import context

HEADER = "slipway_origin"

_open: dict[str, ExitStack] = {}


@before_task_publish.connect
def send_along(headers: dict[str, Any], **_: Any) -> None:
    if origin := context.origin_now():
        headers[HEADER] = origin


@task_prerun.connect
def begin(task_id: str, task: Any, **_: Any) -> None:
    stack = ExitStack()
    stack.enter_context(context.on_behalf_of(task.request.get(HEADER) or ""))
    _open[task_id] = stack


@task_postrun.connect
def end(task_id: str, **_: Any) -> None:
    if (stack := _open.pop(task_id, None)) is not None:
        stack.close()
