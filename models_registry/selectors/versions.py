"""Versions of a model, what lists show of them, and one of them by any of its names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext as _

from common.actor import Actor
from common.prepared import Ids, Texts, prepared
from common.reconcile import KERNEL_COLUMNS
from common.words import MAX_WORDS, occurs_in
from model_store.errors import BlobMissing
from model_store.file_manifest import ManifestFile
from model_store.models import CorruptBlob
from models_registry import files, names
from models_registry.errors import UnknownVersion
from models_registry.facts import readme
from models_registry.facts.code import DeclaredByApp, code_of, declared_by
from models_registry.facts.comparison import VersionComparison, compared
from models_registry.facts.figures import compared_figures
from models_registry.facts.tokenizer import Tokenizer, tokenizer_of
from models_registry.models import (
    Alias,
    Model,
    Version,
    VersionFile,
    VersionMove,
    VersionSignature,
    VersionTag,
)
from models_registry.references import uses
from models_registry.selectors.catalogue import model_named
from models_registry.selectors.evaluations import figures
from models_registry.signature_verification import shown_standing, signatures_of
from models_registry.states import WHOLE, VersionState
from trust.signature_policy import SignatureStatus

_UNLISTED = (
    *KERNEL_COLUMNS, "config", "facts", "lineage", "author", "job", "job_host", "launches", "launched_at",
    "attempt", "is_held", "signatures_checked_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class VersionCard:
    """A version as lists show it, without its config."""

    version: Version
    aliases: tuple[str, ...]
    served: tuple[str, ...]
    same_content_as: str
    """Name of the first version of the model with the same digest; empty when it is this one."""
    tags: tuple[str, ...]
    parent: Version | None
    """Its name and that of its model."""
    signatures: tuple[VersionSignature, ...]
    """Without their bundles."""

    @property
    def standing(self) -> SignatureStatus:
        return shown_standing(self.signatures)


def versions(model: Model) -> QuerySet[Version]:
    """The model's versions, deleted ones left out, newest first, with what lists show of them."""
    return model.versions.live().defer(*_UNLISTED).order_by("-number")


NEWEST = 101
"""One more than lists show at first."""


def newest_versions(model: Model) -> list[Version]:
    """The first of `versions` without the archived ones."""
    rows = _newest(model.pk)
    for row in rows:
        row.model = model
    return rows


@prepared
def _newest(model: int) -> QuerySet[Version]:
    rows = Version.objects.live().exclude(state=VersionState.ARCHIVED).filter(model=model)
    return rows.defer(*_UNLISTED, "scan").order_by("-number", "-pk")[:NEWEST]


def without_archived(found: QuerySet[Version]) -> QuerySet[Version]:
    """Leave out archived versions, which lists show on request alone."""
    return found.exclude(state=VersionState.ARCHIVED)


def any_versions(actor: Actor) -> QuerySet[Version]:
    """Return the versions of all models that the actor may see, the newest first."""
    # Not by joins: a database would begin with the models and sort all of their versions. `version_cards`
    # brings the models, each once.
    seen = Model.objects.for_actor(actor).live().filter(pk=OuterRef("model"))
    return Version.objects.live().filter(Exists(seen)).defer(*_UNLISTED).order_by("-pk")


def versions_mentioning(found: QuerySet[Version], q: str, *, also: Sequence[str] = ()) -> QuerySet[Version]:
    """Select the versions in which every word of `q` occurs.

    Searched are name, message, author, digest, architecture, tags, and the fields in `also`.
    """
    for word in q.split()[:MAX_WORDS]:
        own = occurs_in(("name", "message", "author_name", "architecture", *also), word)
        tags = VersionTag.objects.filter(version=OuterRef("pk"), name__icontains=word)
        found = found.filter(own | Q(digest__startswith=word.lower()) | Q(Exists(tags)))
    return found


def any_versions_mentioning(found: QuerySet[Version], q: str) -> QuerySet[Version]:
    """Select versions as `versions_mentioning` does, by the name of their model, too."""
    return versions_mentioning(found, q, also=("model__name",))


def version_cards(
    versions: Sequence[Version], *, aliases: Iterable[Alias] | None = None
) -> list[VersionCard]:
    """Return the cards of these versions in their order: a fixed number of queries for any number of them.

    `aliases`: all that their models have, where they are known already.
    """
    _bring_models(versions)
    ids = [version.pk for version in versions]
    pairs = _aliases_of(ids) if aliases is None else [(alias.version_id, alias.name) for alias in aliases]
    named: dict[int, list[str]] = {}
    for version_id, name in pairs:
        named.setdefault(version_id, []).append(name)
    tags: dict[int, list[str]] = {}
    for version_id, name in _tags_of(ids):
        tags.setdefault(version_id, []).append(name)
    signatures = signatures_of(versions)
    served = uses(ids)
    firsts = _first_with_digest(versions)
    parents = _parents(versions)
    shown = []
    for version in versions:
        first = firsts.get((version.model_id, version.digest or ""), version.name)
        same = first if first != version.name else ""
        shown.append(
            VersionCard(
                version,
                tuple(named.get(version.pk, ())),
                tuple(served.get(version.pk, ())),
                same,
                tuple(tags.get(version.pk, ())),
                parents.get(version.parent_id or 0),
                tuple(signatures.get(version.pk, ())),
            )
        )
    return shown


def _bring_models(versions: Sequence[Version]) -> None:
    """Read the names of models that were not read with their versions."""
    bare = [version for version in versions if not Version.model.is_cached(version)]
    models = {model.pk: model for model in _models({version.model_id for version in bare})} if bare else {}
    for version in bare:
        version.model = models[version.model_id]


@prepared
def _models(ids: Ids) -> QuerySet[Model]:
    return Model.objects.only("name").filter(pk__in=ids).order_by()


def _first_with_digest(versions: Sequence[Version]) -> dict[tuple[int, str], str]:
    """Name of the oldest version with each digest, per model."""
    digests = {version.digest for version in versions if version.digest}
    found: dict[tuple[int, str], str] = {}
    for model_id, digest, name in _with_digests({version.model_id for version in versions}, digests):
        found[model_id, digest or ""] = name
    return found


@prepared
def _aliases_of(versions: Ids) -> QuerySet[Alias, tuple[int, str]]:
    return Alias.objects.filter(version__in=versions).order_by("name").values_list("version", "name")


@prepared
def _tags_of(versions: Ids) -> QuerySet[VersionTag, tuple[int, str]]:
    return VersionTag.objects.filter(version__in=versions).values_list("version", "name")


@prepared
def _with_digests(models: Ids, digests: Texts) -> QuerySet[Version, tuple[int, str | None, str]]:
    rows = Version.objects.ready().filter(model__in=models, digest__in=digests)
    return rows.order_by("-number").values_list("model_id", "digest", "name")


def _parents(versions: Sequence[Version]) -> dict[int, Version]:
    ids = {version.parent_id for version in versions if version.parent_id}
    return Version.objects.select_related("model").only("name", "model__name").in_bulk(ids) if ids else {}


def version_card(version: Version) -> VersionCard:
    return version_cards([version])[0]


def version_named(model: Model, reference: str, *, or_deleted: bool = False) -> Version:
    """Return a version by `v3`, by the name its author gave, or by at least 12 hex digits of its digest.

    Deleted versions are not found, unless `or_deleted` and no other matches. Of several with one digest the
    newest
    is returned. Raises UnknownVersion.
    """
    rows = model.versions.all()
    wanted = Q(name=reference)
    if number := names.NUMBER.fullmatch(reference):
        wanted |= Q(number=int(number[1]))
    if names.DIGEST_PREFIX.fullmatch(reference):
        wanted |= Q(digest__startswith=reference)
    listed = list(rows.live().filter(wanted).order_by("-number")[:50])
    if not listed and or_deleted:
        listed = list(rows.filter(wanted).order_by("-number")[:50])
    if len({version.digest for version in listed if version.digest}) > 1:
        raise UnknownVersion(
            _("%(model)s has several versions whose digest begins with %(reference)s. Give more of it.")
            % {"model": model, "reference": reference}
        )
    if not listed:
        was = rows.filter(wanted).exists()
        raise UnknownVersion(
            _("%(model)s:%(reference)s was deleted; its name stays taken.")
            % {"model": model, "reference": reference}
            if was
            else _("%(model)s has no version '%(reference)s'.")
            % {"model": model, "reference": reference[:95]}
        )
    return listed[0]


def resolve(actor: Actor, reference: str) -> Version:
    """`model:v3`, `model:<digest>` or `model:<alias>`. Raises UnknownModel, UnknownVersion."""
    name, colon, part = reference.partition(":")
    if not colon:
        raise UnknownVersion(
            _("'%(reference)s' is not of the form model:version.") % {"reference": reference[:200]}
        )
    model = model_named(actor, name)
    alias = Alias.objects.filter(model=model, name=part).select_related("version").first()
    return alias.version if alias else version_named(model, part)


def version_files(version: Version) -> QuerySet[VersionFile]:
    """Its files by path."""
    return VersionFile.objects.filter(version=version).order_by("path")


def made_from(actor: Actor, version: Version) -> QuerySet[Version]:
    """The versions, of any model that the actor may see, whose parent this one is; newest first."""
    rows = Version.objects.for_actor(actor).live().filter(parent=version, model__deleted_at=None)
    return rows.select_related("model").only("name", "model__name").order_by("-pk")


def version_moves(version: Version) -> QuerySet[VersionMove]:
    """The history of its state, oldest first."""
    return VersionMove.objects.filter(version=version).order_by("pk")


def versions_needing(sha256: str) -> QuerySet[Version]:
    """The versions that a blob belongs to, oldest first."""
    holding = VersionFile.objects.filter(version=OuterRef("pk"), sha256=sha256)
    found = Version.objects.filter(Exists(holding), state__in=WHOLE).select_related("model__team")
    return found.defer("config", "scan").order_by("pk")


def damages(version: Version) -> list[CorruptBlob]:
    """The open corrupt blobs about files of the version: while there are any it cannot be released."""
    return list(files.damages(version))


def importing(actor: Actor) -> QuerySet[Version]:
    """Imports that run, or that are stuck, newest first."""
    rows = Version.objects.for_actor(actor).filter(state=VersionState.IMPORTING)
    return rows.select_related("model").defer("config", "scan").order_by("-pk")


def compare_versions(before: Version, after: Version) -> VersionComparison:
    """A tokenizer or a card that the store has lost is as one that is not there."""
    one, other = files.manifest_of(before).files, files.manifest_of(after).files
    cards = (_card_text(before), _card_text(after))
    found = compared(
        one,
        other,
        config_before=before.config,
        config_after=after.config,
        facts_before=before.facts,
        facts_after=after.facts,
        tokenizers=(_tokenizer(one), _tokenizer(other)),
        cards=cards,
        figures=compared_figures(figures(before), figures(after)),
        code=_changed_code(one, other),
    )
    return replace(found, licenses=(readme.license_of(cards[0] or ""), readme.license_of(cards[1] or "")))


def _changed_code(
    before: Sequence[ManifestFile], after: Sequence[ManifestFile]
) -> tuple[dict[str, str], dict[str, str]]:
    """The text of the files that differ."""
    same = {(file.path, file.sha256) for file in before} & {(file.path, file.sha256) for file in after}
    one, other = (
        [file for file in files if (file.path, file.sha256) not in same] for files in (before, after)
    )
    return code_of(one), code_of(other)


def declared_by_app(version: Version) -> DeclaredByApp:
    """Return what the code of a service declares; nothing of it is run."""
    return declared_by(code_of(files.manifest_of(version).files))


def _tokenizer(manifest: Sequence[ManifestFile]) -> Tokenizer | None:
    try:
        return tokenizer_of({file.path: file for file in manifest})
    except BlobMissing:
        return None


def _card_text(version: Version) -> str | None:
    try:
        found = readme.text_of(version)
    except BlobMissing:
        return None
    return found[0] if found else None
