"""What people do with a sync or an export: begin, pause, resume, cancel, retry."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, clock, texts
from common.actor import Actor
from common.errors import SlipwayError, WrongState
from common.reconcile import kernel
from common.sentences import listed
from hubs.models import HubTransfer
from hubs.selectors.transfers import shown
from hubs.states import HALTED, MOVES, WISHES, Choices, TransferState

T = TypeVar("T", bound=HubTransfer)
_TO = {"pause": TransferState.PAUSED, "cancel": TransferState.CANCELLED}


class Transfers(ABC, Generic[T]):
    """The actions on one kind of transfer."""

    kind: ClassVar[Any]
    name: ClassVar[str]
    """In the audit record."""
    right: ClassVar[Right]
    states: ClassVar[Choices]
    begins: ClassVar[TransferState]
    moves_files: ClassVar[TransferState]

    def begin(self, transfer: T, *, actor: Actor, reason: str = "") -> T:
        """A new one, awake. Raises what `taken` says while another one is open."""
        try:
            with transaction.atomic():
                self.hold(transfer)
                transfer.save(force_insert=True)
                self._record(actor, transfer, "start", reason)
                kernel.wake(transfer)
        except IntegrityError:
            raise self.taken(transfer) from None
        return transfer

    def ask(self, wish: str, *, actor: Actor, transfer: T, reason: str = "", **given: Any) -> T:
        """Pause it, and keep what has moved; resume it; cancel it for good; or retry it, with what is `given`
        instead of what was. Raises NotAllowed, WrongState; to go on SourceNotAllowed, too; to retry Invalid,
        and what `taken` says while another one is open.
        """
        require(actor, self.right, transfer.model.team)
        columns: dict[str, Any] = {}
        if wish in ("resume", "retry"):
            self.check_endpoint(transfer)
        if wish == "retry":
            new = self.begun_again(transfer, actor, **given)
            columns = {"began_at": clock.now(), "ended_at": None, **new}
        try:
            with transaction.atomic():
                self.move(transfer, wish, actor=actor, reason=reason, **columns)
        except IntegrityError:
            raise self.taken(transfer) from None
        return self.read(transfer.pk)

    def read(self, pk: int) -> T:
        found: T = shown(self.kind.objects.all()).get(pk=pk)
        return found

    def move(self, transfer: T, wish: str, *, actor: Actor, reason: str, **columns: Any) -> None:
        """Take the row away from whoever works on it, if it still is what was read. In a transaction, and for
        the schedule as well: rights are not asked. Raises WrongState.
        """
        to = {"resume": self.moves_files, "retry": self.begins}.get(wish) or _TO[wish]
        why, state = texts.reason(reason), TransferState(transfer.state)
        if state not in WISHES[wish] or not MOVES.allows(state, to):
            fitting = [str(label).lower() for name, label in self.states if name in WISHES[wish]]
            raise WrongState(
                _("It is %(state)s: this cannot be done now, only while it is one of %(states)s.")
                % {"state": str(state.label).lower(), "states": listed(fitting)}
            )
        is_halt = to in HALTED or to == TransferState.CANCELLED
        sentence = f"By {actor.name}. {why}".strip()  # untranslated
        columns["reason"] = sentence if is_halt else ""
        if to == TransferState.CANCELLED:
            columns["ended_at"] = clock.now()
        columns |= self.columns(wish)
        if not kernel.interrupt(transfer, to=to, **columns):
            raise WrongState(_("It has just changed its state. Look again."))
        self._record(actor, transfer, wish, why)
        self.along(transfer, wish, actor=actor, reason=why)

    def _record(self, actor: Actor, transfer: T, wish: str, reason: str) -> None:
        audit.record(
            actor,
            f"{self.name}.{wish}",
            subject=transfer,
            reason=reason,
            detail=self.detail(transfer),
            team_id=transfer.model.team_id,
        )

    @abstractmethod
    def taken(self, transfer: T) -> SlipwayError:
        """Another one is open."""

    @abstractmethod
    def check_endpoint(self, transfer: T) -> None:
        """Raises SourceNotAllowed when the operator no longer allows it."""

    @abstractmethod
    def begun_again(self, transfer: T, actor: Actor, **given: Any) -> Mapping[str, Any]:
        """Columns of one that is tried again. Raises Invalid, WrongState."""

    @abstractmethod
    def detail(self, transfer: T) -> dict[str, Any]:
        """Return the transfer's fields for the audit record, without secrets."""

    def hold(self, transfer: T) -> None:
        """Lock what a new one belongs to, inside its transaction. Raises WrongState."""

    def columns(self, wish: str) -> Mapping[str, Any]:
        """Saved with the wish."""
        return {}

    def along(self, transfer: T, wish: str, *, actor: Actor, reason: str) -> None:
        """Apply the action to rows that follow the transfer, in the same transaction. Raises WrongState."""
