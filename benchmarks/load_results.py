"""What load generators hand in: progress, records of requests, figures."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, Self

from django.db import transaction
from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmarks import record_store
from benchmarks.figures import Summary
from benchmarks.load.records import WindowRecord
from benchmarks.models import BenchmarkRecords, BenchmarkRun
from benchmarks.states import RunState
from common import clock
from common.errors import Invalid, WrongState
from common.reconcile import kernel

MOST_RECORD_BYTES = 1024**3
_PIECE_BYTES = 1024 * 1024
MOST_WINDOW = 1_000_000
MOST_NAME, MOST_UNIT = 40, 30


class SystemFigures(BaseModel):
    """See `load.system_series`."""

    model_config = ConfigDict(allow_inf_nan=False)

    began: float
    step: Annotated[int, Field(ge=1)]
    series: Mapping[str, Sequence[float | None]]


class LoadResult(BaseModel):
    """Figures of the windows of a run, or why there are none, as its generator tells them."""

    model_config = ConfigDict(allow_inf_nan=False)

    engine: Annotated[str, Field(max_length=30)] = ""
    summaries: Sequence[Summary] = ()
    heads: Sequence[WindowRecord] = ()
    system: SystemFigures | None = None
    failed: str = ""

    @model_validator(mode="after")
    def _can_be_kept(self) -> Self:
        """Refuse what the tables of figures do not take."""
        if not self.summaries and not self.failed:
            raise ValueError("give the figures of each window, or failed: why not")
        windows = [one.window for one in self.summaries]
        if len(set(windows)) < len(windows) or any(not 0 <= one <= MOST_WINDOW for one in windows):
            raise ValueError(f"number the windows from 0 to {MOST_WINDOW}, each once")
        for name, one in ((name, one) for each in self.summaries for name, one in each.figures.items()):
            if name != one.name or len(name) > MOST_NAME or len(one.unit) > MOST_UNIT or one.samples < 0:
                raise ValueError(f"figure {name[:MOST_NAME]} is not one")
        return self


def read_result(result: Mapping[str, Any]) -> LoadResult:
    """Raises Invalid with the name of the field."""
    try:
        return LoadResult.model_validate({**result, "system": result.get("system") or None})
    except ValidationError as error:
        (first, *_others) = error.errors(include_url=False, include_input=False)
        place = ".".join(str(part) for part in first["loc"]) or "summaries"
        raise Invalid(fields={place: [first["msg"].removeprefix("Value error, ")]}) from None


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
    read_result(result)
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
