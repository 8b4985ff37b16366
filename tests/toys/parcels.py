"""Label a parcel (absolute), box it (create), post it (irreversible); a wish to return it outranks all."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from common import audit
from common.actor import Actor
from common.reconcile import Effect, LeaseLost, Operation, Reconciler, Step, StepOutcome, proceed, wait
from tests.toys.models import Parcel, ParcelHistory


class World:
    """The outside: it checks fences, refuses a second thing of one name, and counts what cannot be undone."""

    def __init__(self) -> None:
        self.label: tuple[int, str] = (0, "")
        self.boxes: dict[str, str] = {}
        self.boxes_refused = 0
        self.postings: list[str] = []
        self.remembers_postings = True
        self.post_fence = 0
        self.late_labels = 0

    def set_label(self, text: str, *, fence: int) -> None:
        if fence < self.label[0]:
            self.late_labels += 1
            raise LeaseLost
        self.label = (fence, text)

    def create_box(self, name: str, *, op_key: str) -> None:
        if self.boxes.setdefault(name, op_key) != op_key:
            self.boxes_refused += 1
            raise RuntimeError(f"Box {name} belongs to {self.boxes[name]}")

    def post(self, op_key: str, *, fence: int) -> None:
        if fence < self.post_fence:
            raise LeaseLost
        self.post_fence = fence
        self.postings.append(op_key)


def moved(parcel: Parcel, to: str) -> StepOutcome:
    def write() -> None:
        ParcelHistory.objects.create(parcel_id=parcel.pk, state=to)
        audit.record(Actor.system("post"), f"parcel.{to}", subject=parcel)

    if to in {"posted", "returned"}:
        return StepOutcome(next_in=None, ends_step=True, save={"state": to}, write=write)
    return proceed(save={"state": to}, write=write)


class ToyStep(Step[Parcel]):
    to: str

    def __init__(self, world: World) -> None:
        self.world = world

    def intent(self, row: Parcel) -> Mapping[str, Any]:
        return {"to": self.to}

    def settle(self, row: Parcel, seen: Any, now: datetime) -> StepOutcome:
        return moved(row, self.to)


class Label(ToyStep):
    name = "label"
    effect = Effect.ABSOLUTE
    to = "labelled"

    def act(self, row: Parcel, operation: Operation) -> None:
        self.world.set_label("there", fence=operation.fence)


class Box(ToyStep):
    name = "box"
    effect = Effect.CREATE
    to = "boxed"

    def act(self, row: Parcel, operation: Operation) -> None:
        self.world.create_box(f"box-{row.pk}", op_key=operation.op_key)

    def observe(self, row: Parcel, operation: Operation) -> bool:
        return f"box-{row.pk}" in self.world.boxes

    def settle(self, row: Parcel, seen: bool, now: datetime) -> StepOutcome:
        return moved(row, self.to) if seen else wait(timedelta(seconds=1))


class Post(ToyStep):
    name = "post"
    effect = Effect.IRREVERSIBLE
    to = "posted"

    def act(self, row: Parcel, operation: Operation) -> None:
        self.world.post(operation.op_key, fence=operation.fence)

    def happened(self, row: Parcel, operation: Operation) -> bool | None:
        self.world.post_fence = max(self.world.post_fence, operation.fence)
        return operation.op_key in self.world.postings if self.world.remembers_postings else None


class TakeBack(ToyStep):
    name = "take back"
    effect = Effect.ABSOLUTE
    to = "returned"

    def act(self, row: Parcel, operation: Operation) -> None:
        self.world.set_label("back", fence=operation.fence)


class ParcelReconciler(Reconciler[Parcel]):
    model = Parcel

    def __init__(self, world: World) -> None:
        self.world = world

    def next_step(self, row: Parcel, now: datetime) -> Step[Parcel] | None:
        if row.state in {"posted", "returned"}:
            return None
        if row.wants_return:
            return TakeBack(self.world)
        return {"new": Label, "labelled": Box, "boxed": Post}[row.state](self.world)
