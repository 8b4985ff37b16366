"""One parcel in a fresh world, and the workers that move it."""

from common import audit
from common.models import AuditRecord, Intent
from common.reconcile import Kernel
from tests.crash.harness import Checkpoints, Clock, run_until_rest, worker
from tests.toys.models import Parcel, ParcelHistory
from tests.toys.parcels import ParcelReconciler, World


class Scene:
    def __init__(self, kernel: type[Kernel] = Kernel) -> None:
        self.kernel = kernel
        self.clock = Clock()
        self.world = World()
        self.parcel = Parcel.objects.create(next_at=self.clock())

    def worker(self, checkpoints: Checkpoints | None = None) -> Kernel:
        return worker([ParcelReconciler(self.world)], self.clock, checkpoints, self.kernel)

    def finish(self) -> None:
        run_until_rest(self.worker(), self.clock)

    def check(self) -> None:
        self.parcel.refresh_from_db()
        assert self.parcel.state == "posted"
        assert self.world.label[1] == "there"
        assert len(self.world.boxes) == 1
        assert self.world.boxes_refused == 0
        assert len(self.world.postings) == 1
        states = list(
            ParcelHistory.objects.filter(parcel_id=self.parcel.pk)
            .order_by("pk")
            .values_list("state", flat=True)
        )
        assert states == ["labelled", "boxed", "posted"]
        actions = (
            AuditRecord.objects.filter(subject_id=str(self.parcel.pk))
            .order_by("seq")
            .values_list("action", flat=True)
        )
        assert list(actions) == ["parcel.labelled", "parcel.boxed", "parcel.posted"]
        assert audit.verify().intact

    def clear(self) -> None:
        Parcel.objects.all().delete()
        ParcelHistory.objects.all().delete()
        Intent.objects.all().delete()
