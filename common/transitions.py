"""One table of moves per long-lived thing, and the one question that may be asked of it."""

from collections.abc import Mapping, Set
from typing import Generic, TypeVar

from django.utils.translation import gettext as _

from common.errors import SlipwayError

State = TypeVar("State", bound=str)


class IllegalMove(SlipwayError):
    """The table of moves has no way from here to there."""


class StateMachine(Generic[State]):
    """`Machine({SHIFTING: {PAUSED, PROMOTED}, PROMOTED: set(), ...})`: every state is a key."""

    def __init__(self, moves: Mapping[State, Set[State]]) -> None:
        unlisted = {to for targets in moves.values() for to in targets} - set(moves)
        if unlisted:
            raise ValueError(f"States without a row of their own: {sorted(unlisted)}")
        self._moves = {state: frozenset(targets) for state, targets in moves.items()}

    def allows(self, current: State, to: State) -> bool:
        return to in self._moves[current]

    def check(self, current: State, to: State) -> None:
        if not self.allows(current, to):
            raise IllegalMove(_("Cannot go from %(current)s to %(to)s.") % {"current": current, "to": to})

    def is_final(self, state: State) -> bool:
        return not self._moves[state]
