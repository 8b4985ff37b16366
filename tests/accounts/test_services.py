"""Writes: their guards, and that each leaves its audit row."""

from datetime import timedelta
from functools import partial

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from accounts import actors
from accounts.errors import InvalidToken, LastAdmin, NotAdministrator, OutOfScope, RightMissing
from accounts.models import ApiToken, Membership, Team, User
from accounts.services import people, teams, tokens
from accounts.states import Role
from common import audit
from common.audit import verify
from common.errors import Conflict, Invalid, Stale
from common.errors import NotAllowed as AnyNotAllowed
from common.models import AuditRecord
from tests.cast import PASSWORD, SYSTEM, person, team, token_of

pytestmark = pytest.mark.django_db


def deeds() -> list[str]:
    return list(AuditRecord.objects.order_by("seq").values_list("action", flat=True))


def test_a_team_admin_adds_people_to_that_team_only():
    boss = actors.of_user(person("boss", vision="admin"))
    made = people.create_user(
        actor=boss, username="ada", password=PASSWORD, team=team("vision"), role=Role.DEVELOPER
    )
    assert made.check_password(PASSWORD)
    assert Membership.objects.get(user=made).role == "developer"
    assert deeds() == ["user.create", "member.add"]
    with pytest.raises(RightMissing):
        people.create_user(actor=boss, username="bob", team=team("speech"))
    with pytest.raises(NotAdministrator):
        people.create_user(actor=boss, username="bob")
    with pytest.raises(NotAdministrator):
        people.create_user(actor=boss, username="bob", team=team("vision"), is_superuser=True)
    assert not User.objects.filter(username="bob").exists()


def test_a_person_without_a_password_cannot_sign_in_with_one():
    assert not people.create_user(actor=SYSTEM, username="ada").has_usable_password()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"username": ""}, ValidationError),
        ({"username": "a b"}, ValidationError),
        ({"username": "a" * 151}, ValidationError),
        ({"username": "ADA"}, ValidationError),
        ({"username": "bob", "email": "nonsense"}, ValidationError),
        ({"username": "bob", "password": "short"}, Invalid),
        ({"username": "bob", "password": "password1234"}, Invalid),
    ],
)
def test_a_person_that_cannot_be_is_refused_and_leaves_nothing(fields, fault):
    person("ada")
    with pytest.raises(fault):
        people.create_user(actor=SYSTEM, **fields)
    assert User.objects.count() == 1
    assert deeds() == []


def test_an_unknown_role_undoes_the_whole_person():
    with pytest.raises(ValidationError):
        people.create_user(actor=SYSTEM, username="ada", team=team("vision"), role="king")
    assert not User.objects.exists()
    assert deeds() == []


def test_one_changes_ones_own_name_and_mail_but_no_more():
    ada = person("ada", vision="developer")
    people.change_user(actor=actors.of_user(ada), user=ada, email="ada@example.org", first_name="Ada")
    assert User.objects.get(pk=ada.pk).email == "ada@example.org"
    for change in ({"is_superuser": True}, {"is_active": False}):
        with pytest.raises(NotAdministrator):
            people.change_user(actor=actors.of_user(ada), user=ada, **change)
    with pytest.raises(NotAdministrator):
        people.change_user(actor=actors.of_user(person("bob")), user=ada, email="")
    with pytest.raises(Invalid):
        people.change_user(actor=SYSTEM, user=ada, password="sneaky")


def test_a_token_does_not_change_its_owner():
    ada = person("ada", vision="developer")
    actor = actors.of_token(tokens.use_token(token_of(ada)))
    with pytest.raises(AnyNotAllowed):
        people.change_user(actor=actor, user=ada, email="thief@example.org")


def test_the_last_administrator_stays():
    root, other = person("root", superuser=True), person("other", superuser=True)
    people.change_user(actor=SYSTEM, user=other, is_active=False)
    for change in ({"is_superuser": False}, {"is_active": False}):
        with pytest.raises(LastAdmin):
            people.change_user(actor=actors.of_user(root), user=root, **change)
    assert User.objects.get(pk=root.pk).is_superuser
    assert deeds() == ["user.change"]


def test_an_administrator_who_is_one_no_more_leaves_djangos_admin_too():
    person("root", superuser=True)
    other = person("other", superuser=True)
    people.change_user(actor=SYSTEM, user=other, is_superuser=False)
    assert not User.objects.get(pk=other.pk).is_staff


def test_a_new_password_works_and_is_not_in_the_record():
    ada = person("ada")
    people.set_password(actor=SYSTEM, user=ada, password="another good phrase")
    assert User.objects.get(pk=ada.pk).check_password("another good phrase")
    assert "another good phrase" not in str(list(AuditRecord.objects.values()))
    with pytest.raises(NotAdministrator):
        people.set_password(actor=actors.of_user(ada), user=ada, password=PASSWORD)


def test_only_administrators_of_the_installation_make_and_delete_teams():
    boss = actors.of_user(person("boss", vision="admin"))
    with pytest.raises(NotAdministrator):
        teams.create_team(actor=boss, name="speech")
    made = teams.create_team(actor=SYSTEM, name="speech", description="Voices")
    teams.change_team(actor=SYSTEM, team=made, description="All voices")
    with pytest.raises(NotAdministrator):
        teams.delete_team(actor=boss, team=team("vision"))
    teams.delete_team(actor=SYSTEM, team=made)
    assert not Team.objects.filter(name="speech").exists()
    assert deeds() == ["team.create", "team.change", "team.delete"]


@pytest.mark.parametrize("name", ["", "Vision", "-x", "x-", "a b", "a/b", "a" * 64, "é", "..", "vision"])
def test_a_team_needs_a_name_that_fits_into_an_address(name):
    team("vision")
    with pytest.raises(ValidationError):
        teams.create_team(actor=SYSTEM, name=name)


def test_a_role_is_given_changed_and_taken_with_its_reason():
    boss, ada = person("boss", vision="admin"), person("ada")
    actor = actors.of_user(boss)
    teams.set_role(actor=actor, user=ada, team=team("vision"), role="viewer")
    membership = teams.set_role(
        actor=actor, user=ada, team=team("vision"), role=Role.APPROVER, reason="covers for Bob"
    )
    teams.remove_member(actor=actor, membership=membership, reason="moved")
    assert not Membership.objects.filter(user=ada).exists()
    assert deeds() == ["member.add", "member.change", "member.remove"]
    rows = AuditRecord.objects.order_by("seq")
    assert [row.reason for row in rows] == ["", "covers for Bob", "moved"]
    assert {row.team_id for row in rows} == {team("vision").pk}
    assert rows[1].detail == {"team": "vision", "role": "approver"}


def test_only_an_admin_of_the_team_gives_roles():
    operator = actors.of_user(person("op", vision="operator", speech="admin"))
    with pytest.raises(RightMissing):
        teams.set_role(actor=operator, user=person("ada"), team=team("vision"), role="admin")


def test_one_may_leave_a_team_but_the_last_admin_may_not():
    boss, ada = person("boss", vision="admin"), person("ada", vision="viewer")
    teams.remove_member(actor=actors.of_user(ada), membership=Membership.objects.get(user=ada))
    mine = Membership.objects.get(user=boss)
    with pytest.raises(LastAdmin):
        teams.remove_member(actor=actors.of_user(boss), membership=mine)
    with pytest.raises(LastAdmin):
        teams.set_role(actor=actors.of_user(boss), user=boss, team=team("vision"), role="viewer")
    assert Membership.objects.get(user=boss).role == "admin"
    teams.set_role(actor=SYSTEM, user=ada, team=team("vision"), role="admin")
    teams.remove_member(actor=actors.of_user(boss), membership=Membership.objects.get(user=boss))


def test_a_team_that_never_had_an_admin_can_lose_its_members():
    ada = person("ada", vision="viewer")
    teams.remove_member(actor=SYSTEM, membership=Membership.objects.get(user=ada))
    assert not Membership.objects.exists()


@pytest.mark.parametrize("late", ["role", "team", "person"])
def test_a_change_that_expects_another_revision_changes_nothing(late):
    person("root", superuser=True)
    ada = person("ada", vision="viewer")
    person("boss", vision="admin")
    change = {
        "role": partial(teams.set_role, user=ada, team=team("vision"), role="admin"),
        "team": partial(teams.change_team, team=team("vision"), description="new"),
        "person": partial(people.change_user, user=ada, email="a@example.org"),
    }[late]
    with pytest.raises(Stale):
        change(actor=SYSTEM, expected=7)
    assert Membership.objects.get(user=ada).role == "viewer"
    assert team("vision").description == ""
    assert User.objects.get(pk=ada.pk).email == ""
    assert deeds() == []


def test_a_token_is_shown_once_and_kept_as_a_hash():
    ada = person("ada", vision="developer")
    issued = tokens.create_token(actor=actors.of_user(ada), name=" ci ", scopes=["releases.start", "read"])
    assert tokens.use_token(issued.text).pk == issued.token.pk
    row = ApiToken.objects.get()
    assert (row.name, row.scopes) == ("ci", ["read", "releases.start"])
    secret = issued.text.rsplit("_", 1)[1]
    assert secret not in str(list(ApiToken.objects.values())) + str(list(AuditRecord.objects.values()))
    assert timedelta(days=89) < row.expires_at - timezone.now() < timedelta(days=91)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"name": "  "}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read", "moon.landing"]}, "scopes"),
        ({"expires_at": timedelta(0)}, "expires_at"),
        ({"expires_at": timedelta(days=400)}, "expires_at"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused_by_field(fields, fault):
    ada = actors.of_user(person("ada"))
    if "expires_at" in fields:
        fields = {"expires_at": timezone.now() + fields["expires_at"]}
    with pytest.raises(Invalid) as refused:
        tokens.create_token(actor=ada, **({"name": "ci", "scopes": ["read"]} | fields))
    assert list(refused.value.fields) == [fault]


def test_a_token_makes_none_that_may_do_more_or_lives_longer():
    ada = person("ada", vision="developer")
    mine = actors.of_token(tokens.use_token(token_of(ada, scopes=["read"], only_team=team("vision"))))
    narrow = {"name": "x", "scopes": ["read"], "team": team("vision")}
    soon = timezone.now() + timedelta(minutes=5)
    for beyond in (
        {"scopes": ["read", "models.write"]},
        {"team": None},
        {"team": team("speech")},
        {"expires_at": timezone.now() + timedelta(days=2)},
    ):
        with pytest.raises(OutOfScope):
            tokens.create_token(actor=mine, **({"expires_at": soon} | narrow | beyond))
    tokens.create_token(actor=mine, expires_at=soon, **narrow)


def test_only_an_administrator_makes_tokens_for_others():
    robot = person("robot", vision="operator")
    with pytest.raises(NotAdministrator):
        tokens.create_token(
            actor=actors.of_user(person("ada")), owner=robot, name="x", scopes=["fleet.report"]
        )
    issued = tokens.create_token(actor=SYSTEM, owner=robot, name="x", scopes=["fleet.report"])
    assert issued.token.owner == robot
    with pytest.raises(AnyNotAllowed):
        tokens.create_token(actor=SYSTEM, name="x", scopes=["read"])


def test_a_revoked_token_opens_nothing_and_revoking_twice_is_once():
    ada = person("ada")
    text = token_of(ada)
    token = tokens.use_token(text)
    for _ in range(2):
        tokens.revoke_token(actor=actors.of_user(ada), token=token, reason="leaked")
    with pytest.raises(InvalidToken, match="revoked"):
        tokens.use_token(text)
    assert deeds() == ["token.revoke"]


def test_who_may_revoke():
    ada, bob = person("ada"), person("bob")
    wide, narrow = tokens.use_token(token_of(ada)), tokens.use_token(token_of(ada, scopes=["read"]))
    with pytest.raises(NotAdministrator):
        tokens.revoke_token(actor=actors.of_user(bob), token=wide)
    with pytest.raises(OutOfScope):
        tokens.revoke_token(actor=actors.of_token(narrow), token=wide)
    tokens.revoke_token(actor=actors.of_token(narrow), token=narrow)
    tokens.revoke_token(actor=SYSTEM, token=wide)


def test_why_a_token_is_refused_is_told_only_to_who_has_its_secret():
    ada = person("ada")
    expired = token_of(ada, expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(InvalidToken, match="expired"):
        tokens.use_token(expired)
    for text in (
        expired[:-1] + ("a" if expired[-1] != "a" else "b"),
        "slp_aaaaaaaaaa_" + "x" * 43,
        "slp_",
        "",
        "hunter2",
        "slp_" + "é" * 10 + "_" + "x" * 43,
        "x" * 100_000,
    ):
        with pytest.raises(InvalidToken, match="unknown"):
            tokens.use_token(text)
    text = token_of(ada)
    User.objects.update(is_active=False)
    with pytest.raises(InvalidToken, match="no longer active"):
        tokens.use_token(text)


def test_use_is_marked_at_most_once_a_minute(django_assert_num_queries):
    text = token_of(person("ada"))
    tokens.use_token(text)
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    with django_assert_num_queries(1):
        tokens.use_token(text)
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(seconds=61))
    tokens.use_token(text)
    assert ApiToken.objects.get().last_used_at >= first


def test_a_failed_audit_write_undoes_the_deed(monkeypatch):
    def fail(*_args, **_kwargs):
        raise RuntimeError("disk full")

    monkeypatch.setattr("accounts.services.teams.record", fail)
    with pytest.raises(RuntimeError):
        teams.create_team(actor=SYSTEM, name="vision")
    assert not Team.objects.exists()


def test_the_chain_holds_after_all_this():
    test_a_role_is_given_changed_and_taken_with_its_reason()
    assert verify().intact
    assert audit.verify().checked == 3


@pytest.mark.django_db(transaction=True)
def test_a_name_taken_meanwhile_is_a_conflict(monkeypatch):
    monkeypatch.setattr(User, "full_clean", lambda self: person("ada") if self.username == "ada" else None)
    with pytest.raises(Conflict, match="named ada already"):
        people.create_user(actor=SYSTEM, username="ada")
    assert deeds() == []
