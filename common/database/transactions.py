"""Transactions that are open."""

from django.db import connection


def in_transaction() -> bool:
    """Return whether a transaction of the product's is open: that of a test around it does not count."""
    # Django's own marks, which `atomic(durable=True)` goes by.
    return connection.in_atomic_block and not getattr(connection.atomic_blocks[-1], "_from_testcase", False)
