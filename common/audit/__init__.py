"""The record of who did what: an append-only, signed hash chain, written in the transaction of the deed.

Every write of every app says `audit.record(...)`; that is why these names stand here.
"""

from common.audit.chain import Recorded, installation, length, record
from common.audit.heads import ChainHead
from common.audit.verification import ChainBreak, ChainVerdict, verify

MAX_REASON = 2_000
"""Characters of the words that say why."""

__all__ = [
    "MAX_REASON",
    "ChainBreak",
    "ChainHead",
    "ChainVerdict",
    "Recorded",
    "installation",
    "length",
    "record",
    "verify",
]
