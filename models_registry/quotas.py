"""How many bytes the versions of a team hold, how many they may, and whether more fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, F, OuterRef, Q, QuerySet, Subquery, Sum

from accounts.models import Team
from models_registry.file_manifest import ManifestFile
from models_registry.files import named_in
from models_registry.importing.allowance import Allowance
from models_registry.models import StorageQuota, Upload, VersionFile
from models_registry.states import HOLDS_BLOBS


@dataclass(frozen=True, slots=True)
class TeamStorage:
    """What a team holds. Sizes in bytes; contents that several of its versions have count once."""

    team: Team
    held_bytes: int
    reserved_bytes: int
    """For uploads under way."""
    quota: StorageQuota | None

    @property
    def limit_bytes(self) -> int | None:
        """None: as many as there is room for."""
        return self.quota.limit_bytes if self.quota else None

    @property
    def used_bytes(self) -> int:
        return self.held_bytes + self.reserved_bytes

    @property
    def is_full(self) -> bool:
        return self.limit_bytes is not None and self.used_bytes >= self.limit_bytes


class _SizeOf(Subquery):
    """The sum of `size` over a query: one over distinct rows cannot be grouped otherwise."""

    template = "(SELECT COALESCE(SUM(once.size), 0) FROM (%(subquery)s) once)"


def storages_of(teams: Sequence[Team]) -> list[TeamStorage]:
    """In their order: three queries for any number of teams."""
    ids = [team.pk for team in teams]
    size = _SizeOf(_contents_of(OuterRef("pk")), output_field=BigIntegerField())
    held = dict(Team.objects.filter(pk__in=ids).order_by().values_list("pk", size))
    reserving = _reserving().filter(model__team__in=ids).values_list("model__team")
    reserved = dict(reserving.annotate(bytes=Sum("new_bytes")))
    quotas = {quota.team_id: quota for quota in StorageQuota.objects.filter(team__in=ids)}
    return [
        TeamStorage(team, held.get(team.pk, 0), reserved.get(team.pk, 0), quotas.get(team.pk))
        for team in teams
    ]


def storage_of(team: Team) -> TeamStorage:
    return storages_of([team])[0]


def allowance_of(team: Team, *, without: Upload | None = None) -> Allowance | None:
    """None: the team has no limit. `without`: what this upload has reserved does not count."""
    limit = StorageQuota.objects.filter(team=team).values_list("limit_bytes", flat=True).first()
    if limit is None:
        return None
    used = _held_bytes(team.pk) + _reserved_bytes(team.pk, without=without)
    return Allowance(team.name, limit, used)


def hold(team: Team) -> None:
    """Lock the team's quota, if it has one, until the transaction ends: imports are judged one by one."""
    StorageQuota.objects.filter(team=team).update(changed_at=F("changed_at"))


def new_bytes(team: Team, contents: Mapping[str, int]) -> int:
    """How much of these contents (bytes by sha256) the team does not hold yet."""
    held = named_in(_files_of(team.pk), contents)
    return sum(size for sha256, size in contents.items() if sha256 not in held)


def check(team: Team, files: Iterable[ManifestFile], *, without: Upload | None = None) -> None:
    """Raises QuotaExceeded when the team may not hold these files as well."""
    if allowance := allowance_of(team, without=without):
        allowance.check(new_bytes(team, {file.sha256: file.size for file in files}))


def _files_of(team_id: int | OuterRef) -> QuerySet[VersionFile]:
    rows = VersionFile.objects.filter(version__state__in=HOLDS_BLOBS, version__model__team=team_id)
    return rows.order_by()


def _contents_of(team_id: int | OuterRef) -> QuerySet[VersionFile, Any]:
    return _files_of(team_id).values("sha256", "size").distinct()


def _held_bytes(team_id: int) -> int:
    return _contents_of(team_id).aggregate(bytes=Sum("size"))["bytes"] or 0


def _reserving() -> QuerySet[Upload]:
    # Once its version lists files, these count.
    return Upload.objects.live().filter(Q(version=None) | Q(version__file_count=0)).order_by()


def _reserved_bytes(team_id: int, *, without: Upload | None = None) -> int:
    rows = _reserving().filter(model__team=team_id)
    if without is not None:
        rows = rows.exclude(pk=without.pk)
    return rows.aggregate(bytes=Sum("new_bytes"))["bytes"] or 0
