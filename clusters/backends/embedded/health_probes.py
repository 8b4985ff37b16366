"""Health of workers, read from their `/healthz`."""

import http.client
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from clusters.backends.base import ObservedState

PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class WorkerHealthReply:
    state: ObservedState
    reason: str


def ask_all(ports: Mapping[str, int]) -> dict[str, WorkerHealthReply]:
    """Ask each worker for its health on its port, all at once; takes a second or two for any number."""
    if not ports:
        return {}
    with ThreadPoolExecutor(min(32, len(ports)), thread_name_prefix="healthz") as pool:
        return dict(zip(ports, pool.map(_ask, ports.keys(), ports.values()), strict=True))


def _ask(worker: str, port: int) -> WorkerHealthReply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/healthz")
        said = json.loads(connection.getresponse().read(100_000))
        if said["worker"] != worker:
            return WorkerHealthReply(ObservedState.STARTING, f"Port {port} is answered by {said['worker']}.")
        return WorkerHealthReply(ObservedState(said["state"]), str(said["reason"]))
    except ConnectionRefusedError:
        return WorkerHealthReply(ObservedState.STARTING, "It does not listen yet.")
    except TimeoutError:
        return WorkerHealthReply(ObservedState.STARTING, f"It does not answer within {PATIENCE_SECONDS:g} s.")
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        return WorkerHealthReply(ObservedState.STARTING, f"Port {port} is not answered by a worker: {error}")
    finally:
        connection.close()
