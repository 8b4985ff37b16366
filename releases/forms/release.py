"""A version on its way to a service."""

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.audit import MAX_REASON
from images import selectors as catalogue
from images.models import RuntimeImage
from models_registry.models import Version
from releases.forms.choices import ImageChoice, VersionChoice, offer_images, plan_choices, ready_versions
from releases.freezing import freeze_of
from releases.models import Service
from releases.services.changes import differs_from_stable


class ReleaseForm(forms.Form):
    """Set a version of the service's model on its way."""

    version = VersionChoice(
        queryset=Version.objects.none(), empty_label=None, to_field_name="name", label=_("Version")
    )
    plan = forms.ChoiceField(
        help_text=_("How it gets its traffic. The release keeps the plan as it is now."), label=_("Plan")
    )
    reason = forms.CharField(
        max_length=MAX_REASON,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": _("What should be better with it?")}),
        help_text=_("Whoever approves reads this first."),
        label=_("Reason"),
    )
    image = ImageChoice(
        empty_label=_("As the service says"),
        help_text=_("What its workers run. The service names one, or the catalogue's best is taken."),
        label=_("Image"),
    )
    bypass = forms.CharField(
        label=_("Reason for bypassing the policy"),
        max_length=MAX_REASON,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    override = forms.CharField(
        label=_("Reason for releasing in spite of the freeze"),
        max_length=MAX_REASON,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def __init__(
        self, data: QueryDict | None = None, *, service: Service, actor: Actor, **options: Any
    ) -> None:
        super().__init__(data, **options)
        if not (
            freeze_of(service) and may(actor, Right.RELEASES_OVERRIDE, service.team, service=service.name)
        ):
            del self.fields["override"]
        others = ready_versions(service.model)
        if service.stable_version_id is not None and not differs_from_stable(service):
            others = others.exclude(pk=service.stable_version_id)
        self.fields["version"].queryset = others  # type: ignore[attr-defined]
        self.fields["plan"].choices = plan_choices(actor, service.team)  # type: ignore[attr-defined]
        if data is None and not may(actor, Right.RELEASES_BYPASS, service.team):
            del self.fields["bypass"]
        offer_images(self, catalogue.usable_by(service.team).filter(engine=service.engine).order_by("name"))

    @property
    def main_fields(self) -> list[forms.BoundField]:
        """All but the reason for a bypass, which is asked for only beside a plan that falls short."""
        return [field for field in self.visible_fields() if field.name != "bypass"]

    def chosen_version(self) -> Version | None:
        """The one that the browser shows as chosen: the first unless told otherwise."""
        rows: QuerySet[Version] = self.fields["version"].queryset  # type: ignore[attr-defined]
        return rows.filter(name=self["version"].value() or "").first() or rows.first()

    def chosen_image(self) -> RuntimeImage | None:
        if "image" not in self.fields or not (name := self["image"].value()):
            return None
        found: RuntimeImage | None = self.fields["image"].queryset.filter(name=name).first()  # type: ignore[attr-defined]
        return found
