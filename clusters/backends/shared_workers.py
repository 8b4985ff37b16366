"""Workers of a deployment, as processes hand them to each other."""

import json
from collections.abc import Iterable
from datetime import datetime

from clusters.backends.base import ObservedState, ObservedWorker


def packed(workers: Iterable[ObservedWorker]) -> bytes:
    """Return the workers as JSON, without the progress of their files."""
    return json.dumps(
        [
            (
                one.id, one.name, one.node, one.address, one.port, one.pid, one.state, one.since.isoformat(),
                one.restarts, one.reason, one.pull_failure,
            )
            for one in sorted(workers, key=lambda one: one.name)
        ]
    ).encode()  # fmt: skip


def unpacked(value: bytes) -> tuple[ObservedWorker, ...]:
    return tuple(
        ObservedWorker(
            id=uid,
            name=name,
            node=node,
            address=address,
            port=port,
            pid=pid,
            state=ObservedState(state),
            since=datetime.fromisoformat(since),
            restarts=restarts,
            reason=reason,
            pull_failure=pull_failure,
        )
        for uid, name, node, address, port, pid, state, since, restarts, reason, pull_failure in json.loads(
            value
        )
    )
