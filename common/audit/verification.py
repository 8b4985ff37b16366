"""Whether the record is what was written, and how much of that can be proven.

The chain shows what was altered, removed or reordered within it. Signatures show that nobody without the key
wrote entries. Only heads that left the database show that nothing was removed from the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils.translation import gettext as _

from common.audit import heads as exported
from common.audit.chain import GENESIS, hash_of
from common.audit.heads import Head
from common.audit.signing import Check, Signature, check
from common.errors import Unavailable
from common.models import AuditHead, AuditRecord


@dataclass(frozen=True, slots=True)
class Broken:
    """The first place where the record does not hold."""

    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    checked: int
    """Entries from the first on that hold."""
    broken: Broken | None
    head_hash: str
    """Of the last entry that holds."""
    anchor: Head | None
    """The last exported head that agrees with what holds."""
    signed_until: int
    """The last entry that holds and is signed; 0: none is."""

    @property
    def intact(self) -> bool:
        return self.broken is None

    @property
    def proven(self) -> str:
        """What is proven and what is not, as text."""
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


def verify(heads: Sequence[Head] | None = None, *, chunk: int = 2000) -> Verdict:
    """Recompute the whole chain and compare it with exported heads: those given, or this server's own file.

    Raises Unavailable when that file cannot be read.
    """
    return _Walk(_own_heads() if heads is None else sorted(heads, key=lambda head: head.seq)).verdict(chunk)


def _own_heads() -> list[Head]:
    try:
        return exported.read(exported.file())
    except OSError as error:
        raise Unavailable(f"The exported heads cannot be read: {error}.") from None


class _Walk:
    """Along the chain, the exported heads beside it."""

    def __init__(self, heads: Sequence[Head]) -> None:
        self._heads = heads
        self._next_head = 0
        self._previous, self._seq, self._signed_until = GENESIS, 0, 0
        self._anchor: Head | None = None

    def verdict(self, chunk: int) -> Verdict:
        broken = self._forged_head() or self._broken(chunk)
        return Verdict(self._seq, broken, self._previous, self._anchor, self._signed_until)

    def _forged_head(self) -> Broken | None:
        for head in self._heads:
            if not head.is_ours:
                reason = _(
                    "The exported head of entry %(seq)s is not signed with a key of this installation."
                )
                return Broken(head.seq, reason % {"seq": head.seq})
        return None

    def _broken(self, chunk: int) -> Broken | None:
        last = AuditRecord.objects.order_by("-seq").values_list("seq", flat=True).first() or 0
        # Read after the last entry and before the walk: entries that arrive meanwhile lie beyond it.
        head = AuditHead.objects.get(pk=1)
        if head.seq < last:
            return Broken(head.seq + 1, f"The head is row {head.seq}, yet row {last} exists.")
        for row in AuditRecord.objects.filter(seq__lte=head.seq).order_by("seq").iterator(chunk_size=chunk):
            if reason := self._fault(row):
                return Broken(self._seq + 1, reason)
            self._previous, self._seq = row.hash, row.seq
            if row.signature:
                self._signed_until = row.seq
        return self._fault_at_the_end(head)

    def _fault(self, row: AuditRecord) -> str:
        names = {"seq": row.seq, "before": self._seq, "key": row.key_id}
        if row.seq != self._seq + 1:
            return _("Row %(seq)s is missing.") % {"seq": self._seq + 1}
        if row.previous_hash != self._previous:
            return _("Row %(seq)s does not follow row %(before)s.") % names
        if row.hash != hash_of(row):
            return _("Row %(seq)s was altered.") % names
        if row.signature:
            match check(Signature(row.key_id, row.signature), row.hash):
                case Check.FORGED:
                    return _("Row %(seq)s was written without the key: its signature is wrong.") % names
                case Check.FOREIGN:
                    return _("Row %(seq)s is signed with the key %(key)s, which is not here.") % names
        return self._fault_with_heads(row)

    def _fault_with_heads(self, row: AuditRecord) -> str:
        while self._next_head < len(self._heads) and self._heads[self._next_head].seq <= row.seq:
            head = self._heads[self._next_head]
            if head.seq == row.seq and head.hash != row.hash:
                said = _("Row %(seq)s is not the one whose head was exported on %(at)s: rows were rewritten.")
                return said % {"seq": row.seq, "at": _moment(head.at)}
            self._anchor = head
            self._next_head += 1
        return ""

    def _fault_at_the_end(self, head: AuditHead) -> Broken | None:
        beyond = self._seq + 1
        if (self._seq, self._previous) != (head.seq, head.hash):
            said = _("The chain ends at row %(last)s, its head is row %(head)s.")
            return Broken(beyond, said % {"last": self._seq, "head": head.seq})
        if self._next_head < len(self._heads):
            lost = self._heads[-1]
            said = _("Rows %(first)s to %(last)s are gone: their head was exported on %(at)s.")
            return Broken(beyond, said % {"first": beyond, "last": lost.seq, "at": _moment(lost.at)})
        # A row between signed ones is vouched for by the next one's hash; at the end nothing is after it.
        began = bool(self._signed_until or self._anchor)
        unsigned = max(self._signed_until, self._anchor.seq if self._anchor else 0) + 1
        if began and unsigned <= self._seq:
            return Broken(
                unsigned, _("Row %(seq)s is not signed, though signing had begun.") % {"seq": unsigned}
            )
        return None


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
