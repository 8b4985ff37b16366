"""Widgets that are drawn without a template."""

from django import forms

from common.pages.forms import Choice, SearchInput


def test_what_somebody_named_stays_text_in_a_choice() -> None:
    field = forms.ChoiceField(choices=[('a"b', "<b>bold</b> & more"), ("c", "plain")], widget=Choice)
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
