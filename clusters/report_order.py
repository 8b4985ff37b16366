"""The order of a machine's reports: one that is not newer than the last is refused, in every process.

A reporter numbers its reports within a session. Redis holds the last number of each machine's session, so
that all processes judge alike; while it is away, each judges by what it has accepted itself.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import redis
from django.utils.translation import gettext as _

from clusters.errors import OutdatedReport
from common import clock
from common.live.hub import LiveHub

KEEP_SECONDS = 3_600
"""How long a machine's last number is known: longer than anything that it reported."""
SESSIONS_KEPT = 32
REDIS_WITHIN_SECONDS = 1.0
"""An agent waits two seconds for its answer."""
MAX_MACHINES = 10_000

# A turn grows by itself and with the clock, so that it goes on growing when Redis has lost what it held.
_ACCEPT = """
local held = redis.call('HMGET', KEYS[1], 'session', 'sequence', 'turn')
if held[1] == ARGV[1] then
    if tonumber(ARGV[2]) <= tonumber(held[2]) then return {'late', held[2]} end
elseif redis.call('LPOS', KEYS[2], ARGV[1]) then
    return {'replaced', ''}
elseif held[1] then
    redis.call('LPUSH', KEYS[2], held[1])
    redis.call('LTRIM', KEYS[2], 0, ARGV[5] - 1)
end
local turn = math.max(tonumber(held[3] or 0) + 1, tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'session', ARGV[1], 'sequence', ARGV[2], 'turn', string.format('%.0f', turn))
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return {'accepted', string.format('%.0f', turn)}
"""


@dataclass(slots=True)
class _LastReport:
    session: str
    sequence: int
    turn: int
    replaced: list[str] = field(default_factory=list)


class ReportOrder:
    def __init__(self, hub: LiveHub) -> None:
        self._hub = hub
        self._script: Any = None
        self._known: OrderedDict[str, _LastReport] = OrderedDict()

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
        keys = (f"slipway:node-report:{machine}", f"slipway:node-report-sessions:{machine}")
        arguments = (session, sequence, round(clock.seconds() * 1000), KEEP_SECONDS, SESSIONS_KEPT)
        if self._script is None:
            self._script = self._hub.client.register_script(_ACCEPT)
        try:
            async with asyncio.timeout(REDIS_WITHIN_SECONDS):
                answer = await self._script(keys=keys, args=arguments)
            verdict, detail = (part.decode() for part in answer)
        except (redis.RedisError, OSError, TimeoutError):
            return None
        if verdict == "late":
            raise _late(sequence, int(detail))
        if verdict == "replaced":
            raise _replaced(session)
        return int(detail)

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
