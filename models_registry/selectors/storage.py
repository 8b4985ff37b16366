"""What the store holds, and what checks of it have found."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, QuerySet, Sum

from models_registry import files
from models_registry.errors import StoreUnavailable
from models_registry.models import Check, Collection, Finding, UnreferencedBlob, Version, VersionFile
from models_registry.selectors.catalogue import without_json
from models_registry.states import HOLDS_BLOBS, OPEN_FINDINGS, WHOLE
from models_registry.store import Look


@dataclass(frozen=True, slots=True)
class StoreNow:
    """What the store holds. Sizes in bytes."""

    blobs: int
    """That versions need, each once."""
    bytes: int
    version_bytes: int
    """Of all versions that need them, each counted in full."""
    waiting_blobs: int
    """That nothing needs any more, until the grace time is over."""
    waiting_bytes: int
    free_bytes: int | None
    """None: it has no limit."""
    look: Look | None
    problem: str
    """Why it cannot be reached; empty when it can."""
    last_collection: Collection | None
    last_check: Check | None
    open_findings: int

    @property
    def dedup_factor(self) -> float | None:
        """How many times the bytes would be there if every version had files of its own."""
        return self.version_bytes / self.bytes if self.bytes else None


def store_now() -> StoreNow:
    needed = VersionFile.objects.filter(version__state__in=HOLDS_BLOBS).order_by()
    once = needed.values("sha256", "size").distinct().aggregate(blobs=Count("*"), bytes=Sum("size"))
    waiting = UnreferencedBlob.objects.aggregate(blobs=Count("*"), bytes=Sum("size"))
    store, problem = files.store(), ""
    look: Look | None = None
    try:
        look = store.look()
    except StoreUnavailable as error:
        problem = str(error)
    return StoreNow(
        blobs=once["blobs"],
        bytes=once["bytes"] or 0,
        version_bytes=needed.aggregate(bytes=Sum("size"))["bytes"] or 0,
        waiting_blobs=waiting["blobs"],
        waiting_bytes=waiting["bytes"] or 0,
        free_bytes=store.free_bytes(),
        look=look,
        problem=problem,
        last_collection=collections().first(),
        last_check=checks().first(),
        open_findings=Finding.objects.open().count(),
    )


def collections() -> QuerySet[Collection]:
    """Newest first."""
    return Collection.objects.order_by("-pk")


def versions_needing(sha256: str) -> QuerySet[Version]:
    """The versions that a blob belongs to, oldest first."""
    holding = VersionFile.objects.filter(version=OuterRef("pk"), sha256=sha256)
    found = Version.objects.filter(Exists(holding), state__in=WHOLE).select_related("model__team")
    return found.defer("config", "scan").order_by("pk")


@dataclass(frozen=True, slots=True)
class FindingCard:
    """A finding as lists show it, with the versions that it touches, oldest first."""

    finding: Finding
    versions: tuple[Version, ...]


def finding_cards(findings: Sequence[Finding]) -> list[FindingCard]:
    """What lists show of these findings, in their order: one query for any number of them."""
    damaged = VersionFile.objects.filter(
        sha256__in={finding.sha256 for finding in findings}, version__state__in=WHOLE
    )
    rows = without_json(damaged.select_related("version__model"), "version__")
    touched: dict[str, dict[int, Version]] = {}
    for row in rows.order_by("version", "pk"):
        touched.setdefault(row.sha256, {})[row.version_id] = row.version
    return [FindingCard(one, tuple(touched.get(one.sha256, {}).values())) for one in findings]


def finding_card(finding: Finding) -> FindingCard:
    return finding_cards([finding])[0]


def checks() -> QuerySet[Check]:
    """Newest first."""
    return Check.objects.order_by("-pk")


def findings() -> QuerySet[Finding]:
    """Newest first."""
    return Finding.objects.order_by("-pk")


def findings_by_state() -> dict[str, int]:
    """How many there are in each open state, none included."""
    counted = Finding.objects.open().order_by().values_list("state").annotate(Count("pk"))
    return dict.fromkeys(map(str, sorted(OPEN_FINDINGS)), 0) | dict(counted)


def damages(version: Version) -> list[Finding]:
    """The open findings about files of the version: while there are any it cannot be released."""
    return list(Finding.objects.open().about(version))
