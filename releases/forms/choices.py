"""What may be chosen: versions, plans and runtime images."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from common.actor import Actor
from images.models import RuntimeImage
from models_registry.models import Model, Version
from models_registry.states import VersionState
from releases.selectors.plans import plans_for


def ready_versions(model: Model) -> QuerySet[Version]:
    """Newest first, without their configs."""
    rows = Version.objects.filter(model=model, state=VersionState.READY).select_related("model")
    return rows.defer("config", "scan").order_by("-number")


def plan_choices(actor: Actor, team: Team) -> list[tuple[str, str]]:
    """Name, and name with its steps in words."""
    rows = [plan for plan in plans_for(actor) if plan.pk is None or plan.team_id == team.pk]
    return [
        (
            plan.name,
            plan.name
            if plan.pk is None
            else _("%(plan)s (team %(team)s)") % {"plan": plan.name, "team": team},
        )
        for plan in rows
    ]


if TYPE_CHECKING:
    OneVersion = forms.ModelChoiceField[Version]
else:
    OneVersion = forms.ModelChoiceField


class VersionChoice(OneVersion):
    def label_from_instance(self, version: Any) -> str:
        return f"{version.name} · {version.short_digest}" + (
            f" · {version.message[:60]}" if version.message else ""
        )


class ImageChoice(forms.ModelChoiceField):  # type: ignore[type-arg]
    """One of the images that releases of a team may use."""

    def __init__(self, **options: Any) -> None:
        super().__init__(RuntimeImage.objects.none(), required=False, to_field_name="name", **options)

    def label_from_instance(self, image: Any) -> str:
        names = {"image": image.name, "engine": f"{image.engine} {image.engine_version}"}
        if image.deprecated_at:
            return _("%(image)s (%(engine)s, deprecated)") % names
        return _("%(image)s (%(engine)s)") % names


def offer_images(form: forms.Form, images: QuerySet[RuntimeImage]) -> None:
    """Let the form's `image` be one of these; without any there is nothing to choose."""
    form.fields["image"].queryset = images  # type: ignore[attr-defined]
    if not images.exists():
        del form.fields["image"]
