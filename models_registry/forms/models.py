"""What people fill in about models."""

from typing import Any

from django import forms
from django.utils.functional import lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from common.actor import Actor
from common.pages.forms import PLAIN
from models_registry.services.catalogue import MAX_DESCRIPTION, MAX_TASK

TASKS = ("text-generation", "feature-extraction", "text-classification", "automatic-speech-recognition",
         "text-to-image", "image-classification", "object-detection", "translation")  # fmt: skip


def _task_help() -> str:
    return _("In the words of the hub, such as %(tasks)s or %(TASKS_2)s.") % {
        "tasks": TASKS[0],
        "TASKS_2": TASKS[1],
    }


class TaskField(forms.CharField):
    def __init__(self) -> None:
        super().__init__(
            required=False,
            max_length=MAX_TASK,
            label=gettext_lazy("Task"),
            help_text=lazy(_task_help, str)(),
        )


class DescriptionField(forms.CharField):
    def __init__(self) -> None:
        super().__init__(
            label=gettext_lazy("Description"),
            required=False,
            max_length=MAX_DESCRIPTION,
            widget=forms.Textarea(attrs={"rows": 3}),
        )


class ModelChangeForm(forms.Form):
    task = TaskField()
    description = DescriptionField()
    protected_aliases = forms.CharField(
        required=False,
        help_text=gettext_lazy(
            "Such as production, one per line: only approvers and administrators move or delete "
            "these. A release moves its service's alias all the same."
        ),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        label=gettext_lazy("Protected aliases"),
    )
    revision = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, may_protect: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["protected_aliases"].disabled = not may_protect

    def wishes(self) -> dict[str, Any]:
        """Return the fields as `services.change_model` takes them."""
        return self.cleaned_data | {"protected_aliases": self.cleaned_data["protected_aliases"].split()}


class NewModelForm(forms.Form):
    name = forms.CharField(
        max_length=95,
        help_text=gettext_lazy(
            "Of a-z, 0-9, '.', '_' and '-'; unique over all teams, since traffic names it."
        ),
        widget=forms.TextInput(attrs={"autofocus": True, **PLAIN}),
        label=gettext_lazy("Name"),
    )
    team = forms.ModelChoiceField(
        Team.objects.none(),
        to_field_name="name",
        empty_label=None,
        help_text=gettext_lazy("It owns the model."),
        label=gettext_lazy("Team"),
    )
    task = TaskField()
    description = DescriptionField()

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        teams = teams_where(actor, Right.MODELS_WRITE).order_by("name")
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]
