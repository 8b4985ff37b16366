from collections.abc import Collection
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from common import audit, events, texts
from common.actor import Actor
from common.errors import Invalid, NameTaken
from common.reconcile import kernel
from common.sentences import listed
from models_registry import names
from models_registry.errors import InUse, InvalidName
from models_registry.events import ModelChanged, ModelCreated, ModelDeleted
from models_registry.models import Alias, Model, Upload, Version
from models_registry.references import uses
from models_registry.services.versions import let_go
from models_registry.states import UploadState, VersionState

MAX_TASK, MAX_DESCRIPTION = 100, 10_000
MAX_PROTECTED = 20


def create_model(*, actor: Actor, team: Team, name: str, task: str = "", description: str = "") -> Model:
    """Raises NotAllowed, InvalidName, Invalid, NameTaken (names are unique over all teams)."""
    require(actor, Right.MODELS_WRITE, team)
    model = Model(
        team=team,
        name=names.check_model_name(name),
        task=texts.text("task", task, limit=MAX_TASK),
        description=texts.text("description", description, limit=MAX_DESCRIPTION),
        created_by_id=actor.user_id,
        created_by_name=actor.name,
    )
    try:
        with transaction.atomic():
            model.save(force_insert=True)
            audit.record(actor, "model.create", subject=model, team_id=team.pk)
            events.publish(ModelCreated(model.pk))
    except IntegrityError:
        raise NameTaken(
            _("There is a model named %(name)s already, in this team or another.") % {"name": name}
        ) from None
    return model


def change_model(
    *,
    actor: Actor,
    model: Model,
    task: str | None = None,
    description: str | None = None,
    protected_aliases: Collection[str] | None = None,
    expected: int | None = None,
) -> Model:
    """Change what is given; which aliases are protected only those may change who may move such ones.

    Raises NotAllowed, Invalid, Stale when the revision is not the `expected` one.
    """
    require(actor, Right.MODELS_WRITE, model.team)
    changes: dict[str, Any] = {}
    if task is not None:
        changes["task"] = texts.text("task", task, limit=MAX_TASK)
    if description is not None:
        changes["description"] = texts.text("description", description, limit=MAX_DESCRIPTION)
    if protected_aliases is not None and (wanted := _protected(protected_aliases)) != model.protected_aliases:
        require(actor, Right.ALIASES_PROTECTED, model.team)
        changes["protected_aliases"] = wanted
    with transaction.atomic():
        model.change(expected=expected, **changes)
        audit.record(actor, "model.change", subject=model, detail=changes, team_id=model.team_id)
        events.publish(ModelChanged(model.pk))
    return model


def _protected(aliases: Collection[str]) -> list[str]:
    if len(aliases) > MAX_PROTECTED:
        raise Invalid(
            fields={
                "protected_aliases": [
                    _("At most %(max_protected)s aliases can be protected.")
                    % {"max_protected": MAX_PROTECTED}
                ]
            }
        )
    try:
        return sorted({names.check_alias_name(alias) for alias in aliases})
    except InvalidName as error:
        raise Invalid(fields={"protected_aliases": error.fields["alias"]}) from None


def delete_model(*, actor: Actor, model: Model, reason: str = "", expected: int | None = None) -> None:
    """Delete a model with all its versions. Raises NotAllowed, Stale, InUse while anything needs it."""
    require(actor, Right.MODELS_WRITE, model.team)
    why = texts.reason(reason)
    with transaction.atomic():
        # Locks the row: nobody adds a version until this commits.
        model.change(expected=expected)
        versions = list(Version.objects.live().filter(model=model).select_related("model"))
        for version in versions:
            if version.state == VersionState.IMPORTING:
                raise InUse(_("%(version)s is still importing. Cancel that first.") % {"version": version})
        for version in versions:
            # Locks each row, as `set_alias` does: whatever is found below is all there will be.
            let_go(version, actor=actor, reason=why)
        aliases = list(Alias.objects.filter(model=model).values_list("name", flat=True))
        if aliases:
            sentence = ngettext(
                "%(model)s still has the alias %(named)s. Delete it first.",
                "%(model)s still has the aliases %(named)s. Delete them first.",
                len(aliases),
            )
            raise InUse(sentence % {"model": model, "named": listed(sorted(aliases))})
        used = uses([version.pk for version in versions])
        for version in versions:
            if version.pk in used:
                raise InUse(
                    _("%(version)s is still used by %(version_2)s.")
                    % {"version": version, "version_2": listed(used[version.pk])}
                )
        for upload in Upload.objects.live().filter(model=model):
            kernel.interrupt(
                upload,
                state=UploadState.CANCELLED,
                reason="Its model was deleted.",
                ended_at=timezone.now(),
            )
        model.change(deleted_at=timezone.now())
        audit.record(actor, "model.delete", subject=model, reason=why, team_id=model.team_id)
        events.publish(ModelDeleted(model.pk))
