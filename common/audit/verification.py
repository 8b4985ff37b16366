"""Whether the record is what was written, and how much of that can be proven.

The chain shows what was altered, removed or reordered within it. Signatures show that nobody without the key
wrote entries. Only heads that left the database show that nothing was removed from the end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from django.utils.translation import gettext as _

from common.audit import heads as exported
from common.audit.chain import GENESIS, hash_of
from common.audit.heads import ChainHead
from common.audit.signing import Signature, SignatureCheck, check
from common.errors import Unavailable
from common.models import AuditHead, AuditRecord

MOST_FAULTS = 1000
"""Kept of one walk: a record that does not hold from its start has as many as rows."""


class ChainBreakKind(StrEnum):
    MISSING = "missing"
    """Rows, within the record or at its end."""
    ALTERED = "altered"
    SIGNATURE = "signature"
    """Wrong, of a key that is not here, or none."""
    HEADS = "heads"
    """The record and exported heads differ, or a head is not ours."""


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """A place where the record does not hold."""

    seq: int
    reason: str
    kind: "ChainBreakKind"


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    checked: int
    """Entries from the first on that hold."""
    faults: tuple[ChainBreak, ...]
    """In the order of the walk; at most MOST_FAULTS."""
    head_hash: str
    """Of the last entry that holds."""
    anchor: ChainHead | None
    """The last exported head that agrees with what holds."""
    signed_until: int
    """The last entry that holds and is signed; 0: none is."""

    @property
    def broken(self) -> ChainBreak | None:
        """The first fault."""
        return self.faults[0] if self.faults else None

    @property
    def intact(self) -> bool:
        return self.broken is None

    @property
    def proven(self) -> str:
        """Return what is proven and what is not, as text."""
        said = []
        start = 0
        if self.anchor is not None:
            start = self.anchor.seq
            said.append(
                _("Entries 1 to %(last)s are unchanged since their head was exported on %(at)s.")
                % {"last": start, "at": _moment(self.anchor.at)}
            )
        if start < self.checked:
            span = {"first": start + 1, "last": self.checked}
            if self.signed_until == self.checked:
                said.append(_("Entries %(first)s to %(last)s are chained and signed.") % span)
            else:
                said.append(
                    _("Entries %(first)s to %(last)s are chained, but the last is not signed.") % span
                )
            said.append(
                _(
                    "No exported head confirms them yet: whether entries were removed after the last one "
                    "cannot be seen."
                )
                if self.anchor
                else _(
                    "No exported head was compared: whether entries were removed at the end cannot be seen."
                )
            )
        return " ".join(said) or _("There are no entries.")


def verify(heads: Sequence[ChainHead] | None = None, *, chunk: int = 2000) -> ChainVerdict:
    """Recompute the whole chain and compare it with exported heads: those given, or this server's own file.

    Raises Unavailable when that file cannot be read.
    """
    return _ChainWalk(_own_heads() if heads is None else sorted(heads, key=lambda head: head.seq)).verdict(
        chunk
    )


def _own_heads() -> list[ChainHead]:
    try:
        return exported.read(exported.file())
    except OSError as error:
        raise Unavailable(f"The exported heads cannot be read: {error}.") from None


class _ChainWalk:
    """Along the chain, the exported heads beside it."""

    def __init__(self, heads: Sequence[ChainHead]) -> None:
        self._heads = [head for head in heads if head.is_ours]
        self._next_head = 0
        self._previous, self._seq = GENESIS, 0
        self._held, self._held_hash, self._signed_until = 0, GENESIS, 0
        self._anchor: ChainHead | None = None
        reason = _("The exported head of entry %(seq)s is not signed with a key of this installation.")
        self._faults = [
            ChainBreak(head.seq, reason % {"seq": head.seq}, ChainBreakKind.HEADS)
            for head in heads
            if not head.is_ours
        ]

    def verdict(self, chunk: int) -> ChainVerdict:
        if self._faults:
            # Which record they vouch for is not known, so that nothing is proven.
            return self._verdict()
        last = AuditRecord.objects.order_by("-seq").values_list("seq", flat=True).first() or 0
        # Read after the last entry and before the walk: entries that arrive meanwhile lie beyond it.
        head = AuditHead.objects.get(pk=1)
        for row in AuditRecord.objects.filter(seq__lte=head.seq).order_by("seq").iterator(chunk_size=chunk):
            self._faults += self._faults_of(row)
            self._previous, self._seq = row.hash, row.seq
            if len(self._faults) >= MOST_FAULTS:
                return self._verdict()
            if not self._faults:
                self._held, self._held_hash = row.seq, row.hash
                self._signed_until = row.seq if row.signature else self._signed_until
        if head.seq < last:
            reason = f"The head is row {head.seq}, yet row {last} exists."
            self._faults.insert(0, ChainBreak(head.seq + 1, reason, ChainBreakKind.HEADS))
        else:
            self._faults += self._faults_at_the_end(head)
        return self._verdict()

    def _verdict(self) -> ChainVerdict:
        faults = tuple(self._faults)
        return ChainVerdict(self._held, faults, self._held_hash, self._anchor, self._signed_until)

    def _faults_of(self, row: AuditRecord) -> Iterator[ChainBreak]:
        names = {"seq": row.seq, "before": self._seq, "key": row.key_id}
        for seq in range(self._seq + 1, min(row.seq, self._seq + 1 + MOST_FAULTS)):
            yield ChainBreak(seq, _("Row %(seq)s is missing.") % {"seq": seq}, ChainBreakKind.MISSING)
        if row.seq == self._seq + 1 and row.previous_hash != self._previous:
            reason = _("Row %(seq)s does not follow row %(before)s.") % names
            yield ChainBreak(row.seq, reason, ChainBreakKind.ALTERED)
        elif row.hash != hash_of(row):
            yield ChainBreak(row.seq, _("Row %(seq)s was altered.") % names, ChainBreakKind.ALTERED)
        elif row.signature:
            match check(Signature(row.key_id, row.signature), row.hash):
                case SignatureCheck.FORGED:
                    reason = _("Row %(seq)s was written without the key: its signature is wrong.") % names
                    yield ChainBreak(row.seq, reason, ChainBreakKind.SIGNATURE)
                case SignatureCheck.FOREIGN:
                    reason = _("Row %(seq)s is signed with the key %(key)s, which is not here.") % names
                    yield ChainBreak(row.seq, reason, ChainBreakKind.SIGNATURE)
        yield from self._faults_with_heads(row)

    def _faults_with_heads(self, row: AuditRecord) -> Iterator[ChainBreak]:
        while self._next_head < len(self._heads) and self._heads[self._next_head].seq <= row.seq:
            head = self._heads[self._next_head]
            self._next_head += 1
            if head.seq == row.seq and head.hash != row.hash:
                said = _("Row %(seq)s is not the one whose head was exported on %(at)s: rows were rewritten.")
                yield ChainBreak(
                    row.seq, said % {"seq": row.seq, "at": _moment(head.at)}, ChainBreakKind.HEADS
                )
            elif not self._faults:
                self._anchor = head

    def _faults_at_the_end(self, head: AuditHead) -> Iterator[ChainBreak]:
        beyond = self._seq + 1
        # An altered last row differs from the head, too: that is one fault.
        if self._seq != head.seq or (self._previous != head.hash and not self._faults):
            said = _("The chain ends at row %(last)s, its head is row %(head)s.")
            yield ChainBreak(beyond, said % {"last": self._seq, "head": head.seq}, ChainBreakKind.MISSING)
        elif self._next_head < len(self._heads):
            lost = self._heads[-1]
            said = _("Rows %(first)s to %(last)s are gone: their head was exported on %(at)s.")
            reason = said % {"first": beyond, "last": lost.seq, "at": _moment(lost.at)}
            yield ChainBreak(beyond, reason, ChainBreakKind.MISSING)
        elif not self._faults:
            # A row between signed ones is vouched for by the next one's hash; at the end nothing is after it.
            began = bool(self._signed_until or self._anchor)
            unsigned = max(self._signed_until, self._anchor.seq if self._anchor else 0) + 1
            if began and unsigned <= self._seq:
                said = _("Row %(seq)s is not signed, though signing had begun.")
                yield ChainBreak(unsigned, said % {"seq": unsigned}, ChainBreakKind.SIGNATURE)


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
