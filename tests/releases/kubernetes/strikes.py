"""What comes in between the control plane and its cluster: mishaps, and deaths and naps of its workers."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kube.fake.chaos import Chaos, Mishap
from kube.fake.wire import ApiResponse
from kube.transport import ApiCall
from tests.crash.harness import Crash


@dataclass(frozen=True)
class Strike:
    """A disturbance of one call to the API server."""

    mishap: Mishap | None = None
    dies: str = ""
    """The worker of the control plane: `before` the call is served, or `after` it."""
    sleeps: str = ""
    """It, past its lease, and others go on meanwhile: for `a while`, or `to the end` of the release."""

    def __str__(self) -> str:
        return (
            self.mishap.name if self.mishap else f"dies {self.dies}" if self.dies else f"sleeps {self.sleeps}"
        )


WRITES_FAIL = (
    *(Strike(one) for one in (Mishap.LOST, Mishap.LATE, Mishap.AWAY, Mishap.CONFLICT, Mishap.FAILED)),
    Strike(dies="before"),
    Strike(dies="after"),
    Strike(sleeps="a while"),
    Strike(sleeps="to the end"),
)
"""What a write must outlive."""


EVERY = (*(Strike(one) for one in Mishap), *WRITES_FAIL[-4:])


class Struck(Protocol):
    """The world as those that strike see it."""

    def serve(self, call: ApiCall) -> None:
        """Though nobody waits for the answer."""

    def others_go_on(self, how_long: str) -> None:
        """While a worker sleeps past its lease."""


class Strikes:
    """A fault of the transport: `due` by call, from the next one on; `at_write`: by write."""

    def __init__(self, scene: Struck, chaos: Chaos) -> None:
        self._scene, self._chaos = scene, chaos
        self.due: deque[Strike | None] = deque()
        self.at_write: dict[int, Strike] = {}
        self.calls = self.writes = self.struck = 0
        self._asleep = False

    def plan(self, strikes: Iterable[tuple[int, Strike]]) -> None:
        """Each after so many calls that go well."""
        for wait, strike in strikes:
            self.due.extend([None] * wait)
            self.due.append(strike)

    def end(self) -> None:
        self.due.clear()
        self.at_write.clear()
        self._chaos.calm()

    def __call__(self, call: ApiCall) -> ApiResponse | None:
        self.calls += 1
        strike = self.due.popleft() if self.due else None
        if call.method != "GET":
            self.writes += 1
            strike = self.at_write.pop(self.writes, strike)
        if strike is None:
            return self._chaos(call)
        self.struck += 1
        if strike.mishap:
            self._chaos.calls.append(strike.mishap)
            return self._chaos(call)
        if strike.dies:
            if strike.dies == "after":
                self._scene.serve(call)
            raise Crash
        if not self._asleep:
            self._asleep = True
            self._scene.others_go_on(strike.sleeps)
            self._asleep = False
        return None
