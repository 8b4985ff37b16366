"""Versions that are set aside without losing anything, and the tags that people put on them."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.services.rights import require
from accounts.states import Right
from common import audit, texts
from common.actor import Actor
from common.errors import Invalid, WrongState
from models_registry import names, transitions
from models_registry.models import Version, VersionTag
from models_registry.services.versions import check_unneeded, compare_and_set
from models_registry.states import VersionState

MAX_TAGS = 50


def archive_version(*, actor: Actor, version: Version, reason: str = "") -> Version:
    """Set a version aside: lists leave it out, no alias and no release may name it, its files stay.

    Raises NotAllowed, WrongState unless it is ready, InUse while an alias or a deployment needs it.
    """
    return _move(version, VersionState.ARCHIVED, actor=actor, reason=reason)


def restore_version(*, actor: Actor, version: Version, reason: str = "") -> Version:
    """Make an archived version ready again. Raises NotAllowed, WrongState."""
    return _move(version, VersionState.READY, actor=actor, reason=reason)


_FROM = {
    VersionState.ARCHIVED: (
        VersionState.READY,
        gettext_noop("%(version)s is %(state)s; only a ready version can be archived."),
    ),
    VersionState.READY: (
        VersionState.ARCHIVED,
        gettext_noop("%(version)s is %(state)s; only an archived version can be restored."),
    ),
}


def _move(version: Version, to: VersionState, *, actor: Actor, reason: str) -> Version:
    require(actor, Right.MODELS_WRITE, version.model.team)
    needed, sentence = _FROM[to]
    if version.state != needed:
        raise WrongState(_(sentence) % {"version": version, "state": version.get_state_display().lower()})
    why = texts.reason(reason)
    columns, write = transitions.moved(version, to, actor=actor, reason=why)
    if to == VersionState.READY:
        columns["reason"] = ""
    with transaction.atomic():
        # Locks the row, as `set_alias` does: whatever is found below is all there will be.
        compare_and_set(version, columns)
        write()
        if to == VersionState.ARCHIVED:
            check_unneeded(version)
    version.refresh_from_db()
    return version


def tag_version(
    *,
    actor: Actor,
    version: Version,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    reason: str = "",
) -> Version:
    """Put tags on a version and take others away; what is so already changes nothing.

    Raises NotAllowed, InvalidName, Invalid for more than 50 tags, WrongState for a deleted version.
    """
    require(actor, Right.MODELS_WRITE, version.model.team)
    why = texts.reason(reason)
    wanted = {names.check_tag(name.strip()) for name in add}
    if both := wanted & set(remove):
        raise Invalid(
            fields={"add": [_("'%(both)s' cannot be put on and taken away at once.") % {"both": min(both)}]}
        )
    with transaction.atomic():
        # Locks the row: tags of one version change one after the other.
        if not Version.objects.live().filter(pk=version.pk).update(attempt=F("attempt")):
            raise WrongState(_("%(version)s is deleted; its tags are history.") % {"version": version})
        present = set(VersionTag.objects.filter(version=version).values_list("name", flat=True))
        added, removed = sorted(wanted - present), sorted(present & set(remove))
        if len(present) + len(added) - len(removed) > MAX_TAGS:
            raise Invalid(
                fields={"add": [_("A version has at most %(max_tags)s tags.") % {"max_tags": MAX_TAGS}]}
            )
        VersionTag.objects.filter(version=version, name__in=removed).delete()
        is_ready = Version.objects.ready().filter(pk=version.pk).exists()
        VersionTag.objects.bulk_create(
            VersionTag(version=version, model_id=version.model_id, is_ready=is_ready, name=name)
            for name in added
        )
        if added or removed:
            detail = {"added": added, "removed": removed}
            audit.record(
                actor,
                "version.tag",
                subject=version,
                reason=why,
                detail=detail,
                team_id=version.model.team_id,
            )
    return version
