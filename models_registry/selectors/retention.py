"""What a retention rule would do."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _

from models_registry.errors import UnknownRule
from models_registry.models import Alias, Model, RetentionRule, Version, VersionFile
from models_registry.references import fallbacks, uses
from models_registry.retention import RetentionPreview, fingerprint_of, judged
from models_registry.states import HOLDS_BLOBS


def retention_rule(model: Model) -> RetentionRule:
    """Raises UnknownRule."""
    found = RetentionRule.objects.filter(model=model).select_related("model__team").first()
    if found is None:
        raise UnknownRule(_("%(model)s has no retention rule: it keeps every version.") % {"model": model})
    return found


def retention_preview(rule: RetentionRule, now: datetime) -> RetentionPreview:
    """Return what the rule would delete at that moment, what it would keep, and why."""
    ready = Version.objects.ready().filter(model=rule.model_id).select_related("model__team")
    versions = list(ready.defer("config", "scan").order_by("-number"))
    needed: dict[int, list[str]] = {}
    named = Alias.objects.filter(model=rule.model_id).order_by("name")
    for version_id, alias in named.values_list("version", "name"):
        needed.setdefault(version_id, []).append(_("alias %(alias)s") % {"alias": alias})
    for answers in (uses([version.pk for version in versions]), fallbacks()):
        for version_id, words in answers.items():
            needed.setdefault(version_id, []).extend(words)
    limits = {"keep_last": rule.keep_last, "keep_days": rule.keep_days}
    verdicts = judged(versions, **limits, needed=needed, now=now)
    going = [one.version.pk for one in verdicts if one.goes]
    return RetentionPreview(verdicts, fingerprint_of(verdicts, **limits), _held_alone(going))


def _held_alone(version_ids: Sequence[int]) -> int:
    """Bytes of the blobs that these versions need and no other does."""
    others = VersionFile.objects.filter(sha256=OuterRef("sha256"), version__state__in=HOLDS_BLOBS)
    files = VersionFile.objects.filter(version__in=version_ids)
    alone = files.exclude(Exists(others.exclude(version__in=version_ids)))
    return sum(size for _, size in alone.order_by().values_list("sha256", "size").distinct())
