"""Widgets that are drawn without a template."""

import pytest
from django import forms

from common.errors import Invalid
from common.pages.forms import ChoiceSelect, ReasonForm, SearchInput, blame, filled


def test_what_somebody_named_stays_text_in_a_choice() -> None:
    field = forms.ChoiceField(choices=[('a"b', "<b>bold</b> & more"), ("c", "plain")], widget=ChoiceSelect)
    drawn = field.widget.render('na"me', 'a"b', {"id": "x"})
    assert drawn == (
        '<select id="x" name="na&quot;me">'
        '<option value="a&quot;b" selected>&lt;b&gt;bold&lt;/b&gt; &amp; more</option>'
        '<option value="c">plain</option></select>'
    )


def test_what_somebody_typed_stays_text_in_a_search() -> None:
    drawn = SearchInput("Name").render("q", '"><script>')
    assert "&quot;&gt;&lt;script&gt;" in drawn
    assert "<script>" not in drawn


class Tags(forms.Form):
    tags = forms.CharField(label="Its tags", max_length=3)
    days_left = forms.IntegerField(required=False)
    parent = forms.CharField(label="Made from", required=False)


def test_a_dialog_tells_all_that_is_wrong_by_the_names_that_people_see() -> None:
    with pytest.raises(Invalid) as refusal:
        filled(Tags({"tags": "", "days_left": "soon"}))
    assert str(refusal.value) == "Its tags: This field is required. Days left: Enter a whole number."
    assert refusal.value.fields == {
        "tags": ["This field is required."],
        "days_left": ["Enter a whole number."],
    }
    assert filled(Tags({"tags": "a"})).cleaned_data["tags"] == "a"


def test_a_missing_reason_is_asked_for_without_a_name() -> None:
    with pytest.raises(Invalid, match=r"^Say why\.$"):
        filled(ReasonForm({}))


def test_a_services_words_stand_at_the_field_that_they_name_without_the_name() -> None:
    form = Tags({"tags": "a"})
    blame(form, Invalid(fields={"lineage": ["parent: tiny has no version 'v99'."]}), {"lineage": "days_left"})
    assert form.errors == {"parent": ["tiny has no version 'v99'."]}


def test_a_part_of_a_mapped_field_is_named_at_the_field() -> None:
    form = Tags({"tags": "a"})
    blame(form, Invalid(fields={"lineage.data": ["It has no hash."]}), {"lineage": "parent"})
    assert form.errors == {"parent": ["data: It has no hash."]}
