"""Characters that nobody sees: not in names, and shown as what they are everywhere else."""

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction
from django.test import Client

from common.audit import record
from common.characters import hidden, marked, without_hidden
from common.texts import visible_name
from tests.cast import SYSTEM, api, person

RLO = "\u202e"
WALES = "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
HEART_ON_FIRE = "\u2764\ufe0f\u200d\U0001f525"
PERSIAN = "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
HINDI = "\u0915\u094d\u200d\u0937"


@pytest.mark.parametrize(
    ("code", "character"),
    [
        (f"U+{ord(one):04X}", one)
        for one in "\0\x1b\x9b\u061c\u200b\u200f\u202a\u2066\u2028\ufeff\U000e0041\u3164"
    ],
)
def test_what_nobody_sees_is_refused_in_names_and_marked_elsewhere(code, character):
    with pytest.raises(ValidationError, match=code.replace("+", r"\+")):
        visible_name(f"ad{character}min")
    assert marked(f"ad{character}min") == f"ad[{code}]min"
    assert without_hidden(f"ad{character}min") == "admin"


@pytest.mark.parametrize("text", [FAMILY, HEART_ON_FIRE, PERSIAN, HINDI, "Zo\u00eb", "\u5f20\u4f1f"])
def test_writing_that_needs_joiners_stays_as_it_is(text):
    assert marked(text) == text
    assert not hidden(text)


def test_joiners_between_letters_that_need_none_are_hidden_and_flags_stay_flags():
    assert hidden("adm\u200din") == ["U+200D"]
    assert hidden("adm\u200c") == ["U+200C"]
    assert marked(f"{WALES} wins") == f"{WALES} wins"
    assert "[U+E0067]" in marked(WALES[1:])


@pytest.mark.django_db
def test_names_are_refused_at_every_door_and_say_which_character():
    root = person("root", superuser=True)
    client = Client()
    client.force_login(root)
    name = f"Ada{RLO}"
    answers = [
        api(root).post("people/", {"username": "ada", "first_name": name}),
        api(root).post("people/", {"username": f"ada{RLO}"}),
        api(root).post("tokens/", {"name": name, "scopes": ["read"]}),
        api(root).post("teams/", {"name": name}),
    ]
    assert {answer.status_code for answer in answers} == {400}
    assert "U+202E" in answers[0].content.decode()
    for path, form in (
        ("/settings/account/", {"last_name": name}),
        ("/settings/tokens/+new/", {"name": name, "scopes": ["read"], "days": "30"}),
    ):
        page = client.post(path, form)
        assert page.status_code == 422
        assert "U+202E" in page.content.decode()


@pytest.mark.django_db(transaction=True)
def test_pages_show_marks_whatever_the_text_came_from_and_rest_gives_it_as_it_is():
    root = person("root", superuser=True)
    with transaction.atomic():
        record(SYSTEM, "team.change", subject=f"photo{RLO}gnp.exe", reason=f"safe \u200b{PERSIAN} {FAMILY}")
    client = Client()
    client.force_login(root)
    part = {"HX-Request": "1", "HX-Target": "listing"}
    for page in (client.get("/audit/"), client.get("/audit/", headers=part)):
        text = page.content.decode()
        assert "photo[U+202E]gnp.exe" in text
        assert f"safe [U+200B]{PERSIAN} {FAMILY}" in text
        assert RLO not in text
        assert int(page["Content-Length"]) == len(page.content)
    assert f"photo{RLO}gnp.exe" in {row["subject_label"] for row in api(root).get("audit/").json()["results"]}
