"""The record of who did what: an append-only hash chain, written in the transaction of the deed."""

from common.audit.chain import Broken, Verdict, length, record, verify

__all__ = ["Broken", "Verdict", "length", "record", "verify"]
