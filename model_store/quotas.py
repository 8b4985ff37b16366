"""Bytes that the versions of a team hold, its limit, and whether more fit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, F, Model, OuterRef, QuerySet, Subquery, Sum

from accounts.models import Team
from model_store.allowance import Allowance
from model_store.file_manifest import ManifestFile
from model_store.models import StorageQuota
from model_store.references import Reserved, named_in, once, registered


@dataclass(frozen=True, slots=True)
class TeamStorage:
    """A team's use of the store. Sizes in bytes; contents that several of its versions have count once."""

    team: Team
    held_bytes: int
    reserved_bytes: int
    """For uploads under way."""
    quota: StorageQuota | None

    @property
    def limit_bytes(self) -> int | None:
        """The limit in bytes; None without one."""
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
    """Return the storage of these teams in their order: three queries for any number of them."""
    ids = [team.pk for team in teams]
    held, reserved = Counter[int](), Counter[int]()
    for rows, team in _held_rows():
        size = _SizeOf(once(rows.filter(**{team: OuterRef("pk")})), output_field=BigIntegerField())
        held.update(dict(Team.objects.filter(pk__in=ids).order_by().values_list("pk", size)))
    for one in _reserved_rows():
        rows = one.rows.filter(**{f"{one.team}__in": ids}).order_by()
        reserved.update(dict(rows.values_list(one.team).annotate(bytes=Sum(one.size))))
    quotas = {quota.team_id: quota for quota in StorageQuota.objects.filter(team__in=ids)}
    return [TeamStorage(team, held[team.pk], reserved[team.pk], quotas.get(team.pk)) for team in teams]


def storage_of(team: Team) -> TeamStorage:
    return storages_of([team])[0]


def allowance_of(team: Team, *, without: Model | None = None) -> Allowance | None:
    """Return what the team may still add, or None without a limit. The reservation of `without` does not
    count.
    """
    limit = StorageQuota.objects.filter(team=team).values_list("limit_bytes", flat=True).first()
    if limit is None:
        return None
    used = _held_bytes(team.pk) + _reserved_bytes(team.pk, without=without)
    return Allowance(team.name, limit, used)


def hold(team: Team) -> None:
    """Lock the team's quota, if it has one, until the transaction ends: imports are judged one by one."""
    StorageQuota.objects.filter(team=team).update(changed_at=F("changed_at"))


def new_bytes(team: Team, contents: Mapping[str, int]) -> int:
    """Return how many of these contents' bytes (by sha256) the team does not hold yet."""
    held = set[str]().union(
        *(named_in(rows.filter(**{path: team.pk}), contents) for rows, path in _held_rows())
    )
    return sum(size for sha256, size in contents.items() if sha256 not in held)


def check(team: Team, files: Iterable[ManifestFile], *, without: Model | None = None) -> None:
    """Raises StorageQuotaExceeded when the team may not hold these files as well."""
    if allowance := allowance_of(team, without=without):
        allowance.check(new_bytes(team, {file.sha256: file.size for file in files}))


def _held_rows() -> Iterator[tuple[QuerySet[Any], str]]:
    """Rows whose bytes count for a team, and the way to it."""
    return ((one.rows.order_by(), one.team) for one in registered() if one.rows is not None and one.team)


def _reserved_rows() -> Iterator[Reserved]:
    return (one.reserved for one in registered() if one.reserved is not None)


def _held_bytes(team_id: int) -> int:
    sums = (once(rows.filter(**{team: team_id})).aggregate(bytes=Sum("size")) for rows, team in _held_rows())
    return sum(found["bytes"] or 0 for found in sums)


def _reserved_bytes(team_id: int, *, without: Model | None = None) -> int:
    total = 0
    for one in _reserved_rows():
        rows = one.rows.filter(**{one.team: team_id})
        if isinstance(without, one.rows.model):
            rows = rows.exclude(pk=without.pk)
        total += rows.aggregate(bytes=Sum(one.size))["bytes"] or 0
    return total
