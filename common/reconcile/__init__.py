"""The reconcile kernel: a row is the truth, a Celery task is a doorbell.

A long-lived thing is a `Reconciled` row; its app writes a `Reconciler` that names the next `Step`. Any
worker may take any row's next step at any time, after any crash: `engine.Kernel` holds the order of things.

What an app needs to have a reconciler is named here, in one place: who writes one need not know how the
kernel is divided. This and `common.audit` are the two packages that name what their modules define.
"""

from common.reconcile.due import DueRow
from common.reconcile.engine import Kernel, NotOutside, kernel
from common.reconcile.rows import EPOCH, KERNEL_COLUMNS, Reconciled, Singleton
from common.reconcile.steps import (
    Effect,
    LeaseLost,
    NotKnownHere,
    Operation,
    Reconciler,
    Recurring,
    Step,
    StepOutcome,
    again,
    lane_at,
    move,
    proceed,
    rest,
    wait,
)
from common.reconcile.wishes import Due, StuckRow

__all__ = [
    "EPOCH",
    "KERNEL_COLUMNS",
    "Due",
    "DueRow",
    "Effect",
    "Kernel",
    "LeaseLost",
    "NotKnownHere",
    "NotOutside",
    "Operation",
    "Reconciled",
    "Reconciler",
    "Recurring",
    "Singleton",
    "Step",
    "StepOutcome",
    "StuckRow",
    "again",
    "kernel",
    "lane_at",
    "move",
    "proceed",
    "rest",
    "wait",
]
