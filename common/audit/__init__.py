"""The record of who did what: an append-only hash chain, written in the transaction of the deed."""

from common.audit.chain import Broken, Verdict, length, record, verify

MAX_REASON = 2_000
"""Characters of the words that say why."""

__all__ = ["MAX_REASON", "Broken", "Verdict", "length", "record", "verify"]
