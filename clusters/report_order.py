"""The order of a machine's reports: one that is not newer than the last is refused, in every process.

A reporter numbers its reports within a session. Redis holds the last number of each machine's session, so
that all processes judge alike; while it is away, each judges by what it has accepted itself.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import redis
from django.utils.translation import gettext as _

from clusters.errors import OutdatedReport
from common import clock
from common.live.hub import LiveHub

logger = logging.getLogger(__name__)

KEEP_SECONDS = 3_600
"""How long a machine's last number is known: longer than anything that it reported."""
SESSIONS_KEPT = 32
REDIS_WITHIN_SECONDS = 1.0
"""An agent waits two seconds for its answer."""
MAX_MACHINES = 10_000

GATHER_SECONDS = 0.02
"""Reports that come within it are judged by one message to Redis."""

# A turn grows by itself and with the clock, so that it goes on growing when Redis has lost what it held.
_ACCEPT = """
local function judged(machine, sessions, session, sequence)
    local held = redis.call('HMGET', machine, 'session', 'sequence', 'turn')
    if held[1] == session then
        if tonumber(sequence) <= tonumber(held[2]) then return {'late', held[2]} end
    elseif redis.call('LPOS', sessions, session) then
        return {'replaced', ''}
    elseif held[1] then
        redis.call('LPUSH', sessions, held[1])
        redis.call('LTRIM', sessions, 0, ARGV[3] - 1)
        redis.call('EXPIRE', sessions, ARGV[2])
    end
    local turn = string.format('%.0f', math.max(tonumber(held[3] or 0) + 1, tonumber(ARGV[1])))
    redis.call('HSET', machine, 'session', session, 'sequence', sequence, 'turn', turn)
    redis.call('EXPIRE', machine, ARGV[2])
    return {'accepted', turn}
end
local answers = {}
for report = 1, #KEYS / 2 do
    local key, said = 2 * report, 2 * report + 2
    answers[report] = judged(KEYS[key - 1], KEYS[key], ARGV[said], ARGV[said + 1])
end
return cjson.encode(answers)
"""


@dataclass(slots=True)
class _LastReport:
    session: str
    sequence: int
    turn: int
    replaced: list[str] = field(default_factory=list)


_Verdict = tuple[str, str]
_AskedReport = tuple[str, str, int, "asyncio.Future[_Verdict | None]"]
"""Machine, session and sequence, and who waits for the verdict."""


class ReportOrder:
    def __init__(self, hub: LiveHub) -> None:
        self._hub = hub
        self._script: Any = None
        self._known: OrderedDict[str, _LastReport] = OrderedDict()
        self._asked: list[_AskedReport] = []

    async def accept(self, machine: str, session: str, sequence: int) -> int:
        """The report's turn: of two accepted reports of a machine, the later has the higher one.

        Raises OutdatedReport.
        """
        known = self._known.get(machine)
        if known is not None:
            _judge(known, session, sequence)
        turn = await self._shared_turn(machine, session, sequence)
        if turn is None:
            turn = max(known.turn + 1 if known else 0, round(clock.seconds() * 1000))
        self._remember(machine, session, sequence, turn)
        return turn

    async def _shared_turn(self, machine: str, session: str, sequence: int) -> int | None:
        """Return the turn shared by Redis; None while it is away."""
        if self._hub.redis_up is False:
            return None
        answer: asyncio.Future[_Verdict | None] = asyncio.get_running_loop().create_future()
        self._asked.append((machine, session, sequence, answer))
        if len(self._asked) == 1:
            self._hub.spawn(self._ask(), "clusters: judging the order of reports")
        verdict = await answer
        if verdict is None:
            return None
        word, detail = verdict
        if word == "late":
            raise _late(sequence, int(detail))
        if word == "replaced":
            raise _replaced(session)
        return int(detail)

    async def _ask(self) -> None:
        """Answer all that are asked by now; None while Redis is away."""
        await asyncio.sleep(GATHER_SECONDS)
        asked, self._asked = self._asked, []
        verdicts: Sequence[_Verdict | None] = [None] * len(asked)
        if self._script is None:
            self._script = self._hub.client.register_script(_ACCEPT)
        keys: list[str] = []
        arguments: list[str | int] = [round(clock.seconds() * 1000), KEEP_SECONDS, SESSIONS_KEPT]
        for machine, session, sequence, _answer in asked:
            keys += [f"slipway:node-report:{machine}", f"slipway:node-report-sessions:{machine}"]
            arguments += [session, sequence]
        try:
            async with asyncio.timeout(REDIS_WITHIN_SECONDS):
                verdicts = orjson.loads(await self._script(keys=keys, args=arguments))
        except (redis.RedisError, OSError, TimeoutError) as error:
            logger.debug("The order of reports is judged without Redis: %s", error)
        finally:
            for (*_report, answer), verdict in zip(asked, verdicts, strict=True):
                if not answer.done():
                    answer.set_result(verdict)

    def _remember(self, machine: str, session: str, sequence: int, turn: int) -> None:
        known = self._known.get(machine)
        if known is None:
            known = self._known[machine] = _LastReport(session, sequence, turn)
            if len(self._known) > MAX_MACHINES:
                self._known.popitem(last=False)
        elif known.turn < turn:
            if known.session != session:
                known.replaced = [known.session, *known.replaced][:SESSIONS_KEPT]
            known.session, known.sequence, known.turn = session, sequence, turn
        self._known.move_to_end(machine)


def _judge(known: _LastReport, session: str, sequence: int) -> None:
    """The same as the script says."""
    if known.session == session and sequence <= known.sequence:
        raise _late(sequence, known.sequence)
    if session in known.replaced:
        raise _replaced(session)


def _late(sequence: int, last: int) -> OutdatedReport:
    return OutdatedReport(
        _("Report %(sequence)s comes late: report %(last)s of this session is here. Send the next one.")
        % {"sequence": sequence, "last": last}
    )


def _replaced(session: str) -> OutdatedReport:
    return OutdatedReport(
        _(
            "Another session has replaced %(session)s: a newer agent reports this machine. End this agent, "
            "or start it again."
        )
        % {"session": session}
    )
