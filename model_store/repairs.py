"""Repair of a damaged or missing blob, by an app above that the store does not know."""

from collections.abc import Callable

from common.jobs.runners.base import JobRunner
from common.reconcile import Step
from model_store.models import CorruptBlob

Repair = Callable[[CorruptBlob, JobRunner], Step[CorruptBlob]]
"""The next step towards having the blob again, or towards giving it up as lost."""

_registered: list[Repair] = []


def register_repair(repair: Repair) -> None:
    """Let `repair` bring back what is lost; the last one counts."""
    _registered[:] = [repair]


def repair_of(row: CorruptBlob, runner: JobRunner) -> Step[CorruptBlob]:
    return _registered[0](row, runner)
