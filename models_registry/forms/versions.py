"""What people fill in about versions and their import."""

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.languages import Text
from common.pages.fields import LinesField
from common.pages.forms import PLAIN
from models_registry.errors import InvalidName
from models_registry.importing.sources import MAX_LENGTH
from models_registry.names import check_tag
from models_registry.services.checks import MAX_ORIGIN
from models_registry.services.imports import MAX_MESSAGE


class PatternsField(LinesField):
    """Shell patterns, or names, one per line."""

    def __init__(self, *, label: Text, help_text: Text) -> None:
        text = forms.Textarea(attrs={"rows": 2, "spellcheck": "false"})
        super().__init__(label=label, help_text=help_text, required=False, widget=text)


class ImportForm(forms.Form):
    source = forms.CharField(
        label=gettext_lazy("Directory or repository"),
        max_length=MAX_LENGTH,
        help_text=gettext_lazy(
            "Absolute path on the server, in one of the directories on the right; or hf://org/name@revision."
        ),
        widget=forms.TextInput(attrs={"autofocus": True, **PLAIN}),
    )
    version = forms.CharField(
        label=gettext_lazy("Version name"),
        required=False,
        max_length=95,
        help_text=gettext_lazy("The next number unless given."),
    )
    message = forms.CharField(
        required=False,
        max_length=MAX_MESSAGE,
        help_text=gettext_lazy("Summary of changes, for approvers."),
        widget=forms.Textarea(attrs={"rows": 2}),
        label=gettext_lazy("Message"),
    )
    parent = forms.CharField(
        label=gettext_lazy("Parent version"),
        required=False,
        max_length=200,
        help_text=gettext_lazy("The version that it derives from: v2 of this model, or other-model:v2."),
    )
    base_model = forms.CharField(
        label=gettext_lazy("Base model"),
        required=False,
        max_length=MAX_ORIGIN,
        help_text=gettext_lazy(
            "What it was fine-tuned or quantised from: model:v2, or hf://org/name@revision."
        ),
    )
    job = forms.CharField(
        label=gettext_lazy("Made by"),
        required=False,
        max_length=MAX_ORIGIN,
        help_text=gettext_lazy("Name or URL of the job."),
    )
    learned_from = PatternsField(
        label=gettext_lazy("Training data"),
        help_text=gettext_lazy("Names or addresses of the data it learned from, one per line."),
    )
    ignore_patterns = PatternsField(
        label=gettext_lazy("Exclude patterns"),
        help_text=gettext_lazy("Shell patterns over whole paths, one per line, such as *.bin"),
    )

    def wishes(self) -> dict[str, Any]:
        """Return the fields as `services.import_version` takes them."""
        given = self.cleaned_data
        told = {key: given[key] for key in ("parent", "base_model", "job")}
        told["data"] = given["learned_from"]
        return {
            "source": given["source"],
            "version": given["version"],
            "message": given["message"],
            "lineage": {key: value for key, value in told.items() if value},
            "ignore_patterns": given["ignore_patterns"],
        }


class TagForm(forms.Form):
    """The tags of a version. `before` are those that the person was shown: only what differs is changed."""

    before = forms.CharField(widget=forms.HiddenInput, required=False)
    tags = forms.CharField(
        required=False,
        max_length=4_000,
        help_text=gettext_lazy("Separated by spaces, such as evaluated or language=en."),
        widget=forms.TextInput(attrs=PLAIN),
        label=gettext_lazy("Tags"),
    )

    def clean_before(self) -> set[str]:
        return set(self.cleaned_data["before"].split())

    def clean_tags(self) -> set[str]:
        try:
            return {check_tag(word) for word in self.cleaned_data["tags"].replace(",", " ").split()}
        except InvalidName as error:
            raise forms.ValidationError(error.fields["add"]) from None

    def clean(self) -> dict[str, Any]:
        if "before" not in self.data:
            raise forms.ValidationError(_("The tags have not been shown. Open the dialog again."))
        return self.cleaned_data
