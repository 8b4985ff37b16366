"""Named reads of the registry. Everything that takes an actor shows only what that actor may see."""

from collections import abc
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import (
    Count,
    Exists,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    prefetch_related_objects,
)

from common.actor import Actor
from models_registry import files, names
from models_registry.comparison import Comparison, compared
from models_registry.errors import (
    UnknownAlias,
    UnknownHubSource,
    UnknownHubSync,
    UnknownModel,
    UnknownRule,
    UnknownVersion,
)
from models_registry.models import (
    Alias,
    AliasMove,
    Check,
    Collection,
    Finding,
    HubSource,
    HubSync,
    Model,
    RetentionRule,
    UnreferencedBlob,
    Version,
    VersionFile,
    VersionMove,
    VersionTag,
)
from models_registry.retention import Preview, fingerprint_of, judged
from models_registry.states import HOLDS_BLOBS, WHOLE, VersionState
from models_registry.uses import fallbacks, uses

MAX_WORDS = 8
_JSON_COLUMNS = ("config", "facts", "scan", "source", "lineage", "signature")
"""What lists of models do without: parsing it takes longer than all the rest."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model as lists show it. Sizes in bytes, over its ready versions, each counted in full."""

    model: Model
    latest: Version | None
    """Its newest ready version."""
    aliases: tuple[Alias, ...]
    version_count: int
    size_bytes: int
    served: tuple[str, ...]
    """Where its versions are used, in words."""


@dataclass(frozen=True, slots=True)
class VersionCard:
    """A version as lists show it, without its config."""

    version: Version
    aliases: tuple[str, ...]
    served: tuple[str, ...]
    same_content_as: str
    """Name of the first version of the model with the same digest; empty when it is this one."""
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HubSourceCard:
    """A source on a hub as lists show it."""

    source: HubSource
    last_sync: HubSync | None


def models(actor: Actor, *, q: str = "") -> QuerySet[Model]:
    """The models that the actor may see; every word of `q` must occur somewhere.

    Looked at are name, task, description, team, aliases and the architecture of the newest ready version.
    """
    found = Model.objects.for_actor(actor).live().select_related("team", "latest")
    return mentioning(found.defer(*(f"latest__{column}" for column in _JSON_COLUMNS)), q)


def with_weights(
    found: QuerySet[Model],
    *,
    architecture: str = "",
    format: str = "",
    parameters_min: int | None = None,
    parameters_max: int | None = None,
) -> QuerySet[Model]:
    """Those whose newest ready version is so; a number that is not known is neither small nor large."""
    wanted: dict[str, Any] = {
        "latest__architecture__iexact": architecture,
        "latest__facts__format": format,
        "latest__parameters__gte": parameters_min,
        "latest__parameters__lte": parameters_max,
    }
    return found.filter(**{name: value for name, value in wanted.items() if value not in ("", None)})


def mentioning(found: QuerySet[Model], q: str) -> QuerySet[Model]:
    """Those in which every word of `q` occurs somewhere; see `models`."""
    for word in q.split()[:MAX_WORDS]:
        found = found.filter(_mentions(word))
    return found


def _mentions(word: str) -> Q:
    aliases = Alias.objects.filter(model=OuterRef("pk"), name__icontains=word)
    own = Q()
    for field in ("name", "task", "description", "team__name", "latest__architecture"):
        own |= Q(**{f"{field}__icontains": word})
    return own | Q(Exists(aliases))


def cards(models: Sequence[Model]) -> list[ModelCard]:
    """What lists show of these models, in their order: a fixed number of queries for any number of them."""
    ids = [model.pk for model in models]
    prefetch_related_objects(models, "latest", "team")
    totals = {
        row["model_id"]: (row["versions"], row["bytes"])
        for row in Version.objects.ready()
        .filter(model__in=ids)
        .values("model_id")
        .annotate(versions=Count("pk"), bytes=Sum("size_bytes"))
    }
    aliases: dict[int, list[Alias]] = {}
    rows = Alias.objects.filter(model__in=ids).select_related("version").order_by("name")
    own = ("name", "model", "moved_at", "moved_by", "reason", "revision")
    for alias in rows.only(*own, "version__name", "version__model"):
        aliases.setdefault(alias.model_id, []).append(alias)
    served = _served_by_model(ids)
    return [
        ModelCard(
            model,
            model.latest,
            tuple(aliases.get(model.pk, ())),
            *totals.get(model.pk, (0, 0)),
            tuple(served.get(model.pk, ())),
        )
        for model in models
    ]


def _served_by_model(model_ids: abc.Collection[int]) -> dict[int, list[str]]:
    used = uses()
    owners = Version.objects.filter(pk__in=used, model__in=model_ids).values_list("pk", "model_id")
    found: dict[int, list[str]] = {}
    for version_id, model_id in owners:
        found.setdefault(model_id, []).extend(used[version_id])
    return found


def card(model: Model) -> ModelCard:
    # Whoever has just written may hold the row as it was before.
    model.refresh_from_db(fields=["latest"])
    return cards([model])[0]


def model_named(actor: Actor, name: str) -> Model:
    """Raises UnknownModel."""
    found = models(actor).filter(name=name).first()
    if found is None:
        raise UnknownModel(f"There is no model '{name[:95]}', or you may not see it.")
    return found


def versions(model: Model) -> QuerySet[Version]:
    """The model's versions, deleted ones left out, newest first, without their configs."""
    rows = Version.objects.live().filter(model=model).select_related("model", "parent__model")
    return rows.defer("config", "facts").order_by("-number")


def without_archived(found: QuerySet[Version]) -> QuerySet[Version]:
    """What lists show unless somebody asks for the archived ones."""
    return found.exclude(state=VersionState.ARCHIVED)


def versions_mentioning(found: QuerySet[Version], q: str) -> QuerySet[Version]:
    """Those in which every word of `q` occurs in name, message, author, digest, architecture or a tag."""
    for word in q.split()[:MAX_WORDS]:
        mentioned = Q(digest__startswith=word.lower())
        for field in ("name", "message", "author_name", "architecture"):
            mentioned |= Q(**{f"{field}__icontains": word})
        tags = VersionTag.objects.filter(version=OuterRef("pk"), name__icontains=word)
        found = found.filter(mentioned | Q(Exists(tags)))
    return found


def with_bytes(found: QuerySet[Model]) -> QuerySet[Model]:
    """With `bytes`, the size of its ready versions: to sort by."""
    ready = Version.objects.ready().filter(model=OuterRef("pk")).order_by().values("model")
    return found.annotate(bytes=Subquery(ready.annotate(total=Sum("size_bytes")).values("total")))


def version_cards(versions: Sequence[Version]) -> list[VersionCard]:
    """What lists show of these versions, in their order: a fixed number of queries for any number of them."""
    ids = [version.pk for version in versions]
    aliases: dict[int, list[str]] = {}
    for version_id, name in (
        Alias.objects.filter(version__in=ids).order_by("name").values_list("version", "name")
    ):
        aliases.setdefault(version_id, []).append(name)
    tags: dict[int, list[str]] = {}
    for version_id, name in VersionTag.objects.filter(version__in=ids).values_list("version", "name"):
        tags.setdefault(version_id, []).append(name)
    served = uses()
    firsts = _first_with_digest(versions)
    shown = []
    for version in versions:
        first = firsts.get((version.model_id, version.digest or ""), version.name)
        same = first if first != version.name else ""
        shown.append(
            VersionCard(
                version,
                tuple(aliases.get(version.pk, ())),
                tuple(served.get(version.pk, ())),
                same,
                tuple(tags.get(version.pk, ())),
            )
        )
    return shown


def _first_with_digest(versions: Sequence[Version]) -> dict[tuple[int, str], str]:
    """Name of the oldest version with each digest, per model."""
    digests = {version.digest for version in versions if version.digest}
    rows = Version.objects.ready().filter(
        model__in={version.model_id for version in versions}, digest__in=digests
    )
    found: dict[tuple[int, str], str] = {}
    for model_id, digest, name in rows.order_by("-number").values_list("model_id", "digest", "name"):
        found[model_id, digest or ""] = name
    return found


def version_card(version: Version) -> VersionCard:
    return version_cards([version])[0]


def version_named(model: Model, reference: str) -> Version:
    """By `v3`, by the name its author gave, or by at least 12 hex digits of its digest. Raises
    UnknownVersion.

    Versions that were deleted are not found. Of several with one digest it is the newest.
    """
    rows = Version.objects.live().filter(model=model).select_related("model__team", "parent__model")
    wanted = Q(name=reference)
    if number := names.NUMBER.fullmatch(reference):
        wanted |= Q(number=int(number[1]))
    if names.DIGEST_PREFIX.fullmatch(reference):
        wanted |= Q(digest__startswith=reference)
    listed = list(rows.filter(wanted).order_by("-number")[:50])
    if len({version.digest for version in listed if version.digest}) > 1:
        raise UnknownVersion(
            f"{model} has several versions whose digest begins with {reference}. Give more of it."
        )
    if not listed:
        raise UnknownVersion(f"{model} has no version '{reference[:95]}'.")
    return listed[0]


def resolve(actor: Actor, reference: str) -> Version:
    """`model:v3`, `model:<digest>` or `model:<alias>`. Raises UnknownModel, UnknownVersion."""
    name, colon, part = reference.partition(":")
    if not colon:
        raise UnknownVersion(f"'{reference[:200]}' is not of the form model:version.")
    model = model_named(actor, name)
    alias = Alias.objects.filter(model=model, name=part).select_related("version").first()
    return alias.version if alias else version_named(model, part)


def version_files(version: Version) -> QuerySet[VersionFile]:
    """Its files by path."""
    return VersionFile.objects.filter(version=version).order_by("path")


def made_from(actor: Actor, version: Version) -> QuerySet[Version]:
    """The versions, of any model that the actor may see, whose parent this one is; newest first."""
    rows = Version.objects.for_actor(actor).live().filter(parent=version, model__deleted_at=None)
    return rows.select_related("model").defer(*_JSON_COLUMNS).order_by("-pk")


def version_moves(version: Version) -> QuerySet[VersionMove]:
    """The history of its state, oldest first."""
    return VersionMove.objects.filter(version=version).order_by("pk")


def importing(actor: Actor) -> QuerySet[Version]:
    """Imports that run, or that are stuck, newest first."""
    rows = Version.objects.for_actor(actor).filter(state=VersionState.IMPORTING)
    return rows.select_related("model").defer("config", "scan").order_by("-pk")


def aliases(model: Model) -> QuerySet[Alias]:
    return Alias.objects.filter(model=model).select_related("model__team", "version").order_by("name")


def alias_named(model: Model, name: str) -> Alias:
    """Raises UnknownAlias."""
    found = aliases(model).filter(name=name).first()
    if found is None:
        raise UnknownAlias(f"{model} has no alias '{name[:63]}'.")
    return found


def alias_history(model: Model, alias: str | None = None) -> QuerySet[AliasMove]:
    """Who pointed the model's aliases, or one of them, at what, when and why; newest first."""
    rows = AliasMove.objects.filter(model=model)
    rows = rows if alias is None else rows.filter(alias=alias)
    return rows.select_related("from_version", "to_version").order_by("-at", "-pk")


def alias_at(model: Model, alias: str, at: datetime) -> AliasMove | None:
    """The move that was in force at that moment, which tells the version, who put it there and why.

    None when the alias did not exist then, or had been deleted.
    """
    move = alias_history(model, alias).filter(at__lte=at).select_related("to_version__model").first()
    return move if move and move.to_version_id else None


def moves_in_force(moves: QuerySet[AliasMove], at: datetime) -> QuerySet[AliasMove]:
    """Of `moves`, the last one of each alias up to that moment."""
    earlier = AliasMove.objects.filter(model=OuterRef("model"), alias=OuterRef("alias"), at__lte=at)
    return moves.filter(pk=Subquery(earlier.order_by("-at", "-pk").values("pk")[:1]))


def retention_rule(model: Model) -> RetentionRule:
    """Raises UnknownRule."""
    found = RetentionRule.objects.filter(model=model).select_related("model__team").first()
    if found is None:
        raise UnknownRule(f"{model} has no retention rule: it keeps every version.")
    return found


def retention_preview(rule: RetentionRule, now: datetime) -> Preview:
    """What the rule would delete at that moment, what it would keep, and why."""
    ready = Version.objects.ready().filter(model=rule.model_id).select_related("model__team")
    versions = list(ready.defer("config", "scan").order_by("-number"))
    needed: dict[int, list[str]] = {}
    named = Alias.objects.filter(model=rule.model_id).order_by("name")
    for version_id, alias in named.values_list("version", "name"):
        needed.setdefault(version_id, []).append(f"alias {alias}")
    for answers in (uses(), fallbacks()):
        for version_id, words in answers.items():
            needed.setdefault(version_id, []).extend(words)
    limits = {"keep_last": rule.keep_last, "keep_days": rule.keep_days}
    verdicts = judged(versions, **limits, needed=needed, now=now)
    going = [one.version.pk for one in verdicts if one.goes]
    return Preview(verdicts, fingerprint_of(verdicts, **limits), _held_alone(going))


def _held_alone(version_ids: Sequence[int]) -> int:
    """Bytes of the blobs that these versions need and no other does."""
    others = VersionFile.objects.filter(sha256=OuterRef("sha256"), version__state__in=HOLDS_BLOBS)
    files = VersionFile.objects.filter(version__in=version_ids)
    alone = files.exclude(Exists(others.exclude(version__in=version_ids)))
    return sum(size for _, size in alone.order_by().values_list("sha256", "size").distinct())


def compare_versions(before: Version, after: Version) -> Comparison:
    return compared(
        files.manifest_of(before).files,
        files.manifest_of(after).files,
        config_before=before.config,
        config_after=after.config,
        facts_before=before.facts,
        facts_after=after.facts,
    )


def hub_sources(actor: Actor, model: Model | None = None) -> QuerySet[HubSource]:
    """The sources that the actor may see, or those of one model."""
    rows = HubSource.objects.for_actor(actor).live().select_related("model__team").order_by("pk")
    return rows if model is None else rows.filter(model=model)


def hub_source_cards(sources: Sequence[HubSource]) -> list[HubSourceCard]:
    """What lists show of these sources, in their order: one query for any number of them."""
    newest = HubSync.objects.filter(source__in=[source.pk for source in sources]).order_by()
    found = _with_version(HubSync.objects.all()).filter(
        pk__in=newest.values("source").annotate(newest=Max("pk")).values("newest")
    )
    last = {sync.source_id: sync for sync in found}
    return [HubSourceCard(source, last.get(source.pk)) for source in sources]


def hub_source_card(source: HubSource) -> HubSourceCard:
    return hub_source_cards([source])[0]


def hub_source_of(model: Model, pk: int) -> HubSource:
    """Raises UnknownHubSource."""
    found = HubSource.objects.live().filter(model=model, pk=pk).select_related("model__team").first()
    if found is None:
        raise UnknownHubSource(f"{model} has no such source.")
    return found


def hub_syncs(actor: Actor, model: Model | None = None) -> QuerySet[HubSync]:
    """The syncs that the actor may see, or those of one model, newest first."""
    rows = _with_version(HubSync.objects.for_actor(actor)).order_by("-pk")
    return rows if model is None else rows.filter(source__model=model)


def hub_sync_of(model: Model, pk: int) -> HubSync:
    """Raises UnknownHubSync."""
    found = _with_version(HubSync.objects.filter(source__model=model, pk=pk)).first()
    if found is None:
        raise UnknownHubSync(f"{model} has no such sync.")
    return found


def _with_version(rows: QuerySet[HubSync]) -> QuerySet[HubSync]:
    heavy = ("config", "scan", "lineage", "signature")
    return rows.select_related("source__model__team", "version__model").defer(
        *(f"version__{column}" for column in heavy)
    )


def hub_sync_behind(version: Version) -> HubSync | None:
    """The sync that made the version, or last looked at its commit; None: it was not made by one."""
    if version.source.get("kind") != "hub":
        return None
    return _with_version(HubSync.objects.filter(version=version)).order_by("-pk").first()


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
    free_bytes: int
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
    return StoreNow(
        blobs=once["blobs"],
        bytes=once["bytes"] or 0,
        version_bytes=needed.aggregate(bytes=Sum("size"))["bytes"] or 0,
        waiting_blobs=waiting["blobs"],
        waiting_bytes=waiting["bytes"] or 0,
        free_bytes=files.store().free_bytes(),
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
    rows = VersionFile.objects.filter(
        sha256__in={finding.sha256 for finding in findings}, version__state__in=WHOLE
    )
    heavy = [f"version__{column}" for column in _JSON_COLUMNS]
    touched: dict[str, dict[int, Version]] = {}
    for row in rows.select_related("version__model").defer(*heavy).order_by("version", "pk"):
        touched.setdefault(row.sha256, {})[row.version_id] = row.version
    return [FindingCard(one, tuple(touched.get(one.sha256, {}).values())) for one in findings]


def checks() -> QuerySet[Check]:
    """Newest first."""
    return Check.objects.order_by("-pk")


def findings() -> QuerySet[Finding]:
    """Newest first."""
    return Finding.objects.order_by("-pk")


def damages(version: Version) -> list[Finding]:
    """The open findings about files of the version: while there are any it cannot be released."""
    own = VersionFile.objects.filter(version=version, sha256=OuterRef("sha256"))
    return list(Finding.objects.open().filter(Exists(own)).order_by("pk"))
