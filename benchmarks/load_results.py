"""What load generators in a cluster hand in: progress, records of requests, figures."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from django.db import transaction
from django.utils.translation import gettext as _

from benchmarks import record_store
from benchmarks.models import BenchmarkRecords, BenchmarkRun
from benchmarks.states import RunState
from common import clock
from common.errors import Invalid, WrongState
from common.reconcile import kernel

MOST_RECORD_BYTES = 1024**3
_PIECE_BYTES = 1024 * 1024


class ReadableBody(Protocol):
    def read(self, size: int, /) -> bytes: ...


def take_progress(run: BenchmarkRun, progress: Mapping[str, Any]) -> None:
    _measuring(run).update(progress=dict(progress))


def take_records(run: BenchmarkRun, body: ReadableBody) -> None:
    """Keep the records in the model store; those that came before are no harm. Raises WrongState, Invalid,
    StoreFull, StoreUnavailable."""
    _measuring(run)
    if BenchmarkRecords.objects.filter(run=run).exists():
        return
    with tempfile.NamedTemporaryFile(prefix="slipway-records-") as file:
        for piece in _pieces(body):
            file.write(piece)
        file.flush()
        kept = record_store.keep(run.pk, Path(file.name))
    if kept is not None:
        defaults = {"sha256": kept.sha256, "size": kept.size, "created_at": clock.now()}
        BenchmarkRecords.objects.get_or_create(run=run, defaults=defaults)


def take_result(run: BenchmarkRun, result: Mapping[str, Any]) -> None:
    """Keep the figures of its windows, or why there are none. Raises WrongState, Invalid."""
    if not isinstance(result.get("summaries"), list) and not isinstance(result.get("failed"), str):
        raise Invalid(fields={"summaries": [_("Give the figures of each window, or failed: why not.")]})
    with transaction.atomic():
        _measuring(run).update(load_result=dict(result))
        kernel.wake(run)


def _measuring(run: BenchmarkRun) -> Any:
    rows = BenchmarkRun.objects.filter(pk=run.pk, state=RunState.MEASURING)
    if not rows.exists():
        raise WrongState(_("%(run)s does not measure any more: nothing is taken.") % {"run": run})
    return rows


def _pieces(body: ReadableBody) -> Iterator[bytes]:
    come = 0
    while piece := body.read(_PIECE_BYTES):
        come += len(piece)
        if come > MOST_RECORD_BYTES:
            raise Invalid(
                _("Records of a run take at most %(most)s bytes.") % {"most": f"{MOST_RECORD_BYTES:,}"}
            )
        yield piece
