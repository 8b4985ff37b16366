"""The span of a step: part of the trace of the request that has asked for it, or linked to it when that is
long ago. What nobody has asked for is not traced, nor is a look that finds nothing new.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from common import tracing
from common.logs import context

SAME_TRACE_SECONDS = 15 * 60
"""A release takes days: a trace of that length shows nothing, and who keeps traces has closed it."""


@contextmanager
def step_span(kind: str, pk: int) -> Iterator[tracing.TraceSpan]:
    """Within `context.on_behalf_of` the row's origin."""
    origin = context.current()
    if not tracing.is_on() or not origin.traceparent:
        yield tracing.NOTHING
        return
    is_recent = time.time() - origin.at < SAME_TRACE_SECONDS
    parent, link = (origin.traceparent, "") if is_recent else ("", origin.traceparent)
    about: tracing.Attributes = {
        "slipway.kind": kind,
        "slipway.id": pk,
        "slipway.request_id": origin.request_id,
    }
    with tracing.span(kind, parent=parent, link=link, on_demand=True, attributes=about) as span:
        yield span
