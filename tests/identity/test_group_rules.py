"""What group rules give: a pure judgement, and its effect on people at a sign-in and at a change of rules."""

import time

import pytest
from django.test import Client

from accounts.models import Membership, Team, User
from accounts.services.teams import set_role
from accounts.states import Role
from common.errors import Conflict, Invalid
from common.models import AuditRecord
from identity import selectors
from identity.group_rules import GroupPattern, HeldMemberships, changes, given_by, groups_in
from identity.models import GroupRule, Identity
from identity.patterns import matches
from identity.services.rules import change_rule, create_rule, delete_rule
from tests.cast import SYSTEM, Api, api, client_of, person, team
from tests.identity.conftest import sign_in

pytestmark = pytest.mark.any_database


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("ml", ["ml"], ["ML", "ml2", "xml", ""]),
        ("ml-*", ["ml-", "ml-vision"], ["ml", "xml-vision"]),
        ("*-admins", ["x-admins"], ["x-admins-not", "admins"]),
        ("a*b*c", ["abc", "a1b2c"], ["ac", "acb", "abcd"]),
        ("a*a", ["aa"], ["a"]),
        ("m[l]?.", ["m[l]?."], ["ml", "ml1x"]),
    ],
)
def test_a_pattern_fits_whole_names_and_knows_nothing_but_the_star(pattern, fits, does_not):
    assert all(matches(pattern, name) for name in fits)
    assert not any(matches(pattern, name) for name in does_not)


def test_no_pattern_and_no_name_together_take_long():
    began = time.monotonic()
    assert not matches("*a" * 120 + "*b", "a" * 100_000)
    assert time.monotonic() - began < 5


def test_the_strongest_of_several_roles_in_a_team_counts():
    rules = [
        GroupPattern("a", 1, "viewer"),
        GroupPattern("*", 1, "approver"),
        GroupPattern("b", 2, "operator"),
        GroupPattern("c", None, ""),
    ]
    assert given_by(rules, ["a"]) == ({1: Role.APPROVER}, False)
    assert given_by(rules, ["b", "c"]) == ({1: Role.APPROVER, 2: Role.OPERATOR}, True)
    assert given_by(rules, []) == ({}, False)


def test_what_was_given_by_hand_is_no_part_of_a_change():
    held = HeldMemberships(by_rule={1: Role.VIEWER, 2: Role.ADMIN}, by_hand={3: Role.ADMIN})
    given = given_by([GroupPattern("*", 1, "developer"), GroupPattern("*", 3, "viewer")], ["x"])
    assert changes(held, given) == [(1, Role.VIEWER, Role.DEVELOPER), (2, Role.ADMIN, None)]


@pytest.mark.parametrize(
    ("claims", "groups"),
    [
        ({"groups": ["a", "b", "a"]}, ["a", "b"]),
        ({"groups": "a"}, ["a"]),
        ({"groups": [{"display": "a"}, 7, None, ""]}, ["a"]),
        ({}, []),
        ({"groups": {"a": 1}}, []),
        ({"_claim_names": {"groups": "src1"}}, None),
        ({"hasgroups": True}, None),
    ],
)
def test_groups_are_read_as_providers_send_them(claims, groups):
    assert groups_in(claims, "groups") == groups


def test_a_claim_may_lie_in_an_object_or_have_dots_in_its_name():
    assert groups_in({"realm_access": {"roles": ["a"]}}, "realm_access.roles") == ["a"]
    assert groups_in({"https://x.org/groups": ["a"]}, "https://x.org/groups") == ["a"]


def membership(username: str) -> dict[str, str]:
    found = Membership.objects.filter(user__username=username)
    return dict(found.values_list("team__name", "role"))


@pytest.mark.django_db
class TestAtSignIn:
    def test_groups_give_roles_and_take_away_what_no_rule_gives_any_more(self, provider, client):
        for name in ("vision", "speech"):
            create_rule(actor=SYSTEM, pattern=f"{name}-*", team=team(name), role="developer")
        sign_in(client, provider, sub="7", preferred_username="ada", groups=["vision-eu"])
        assert membership("ada") == {"vision": "developer"}
        client.logout()
        sign_in(client, provider, sub="7", preferred_username="ada", groups=["speech-eu"])
        assert membership("ada") == {"speech": "developer"}
        told = AuditRecord.objects.filter(action__startswith="member.").order_by("seq")
        assert [(one.action, one.detail["team"], one.reason) for one in told] == [
            ("member.add", "vision", "Groups at sign-in"),
            ("member.remove", "vision", "Groups at sign-in"),
            ("member.add", "speech", "Groups at sign-in"),
        ]

    def test_roles_given_by_hand_are_left_alone(self, provider, client):
        create_rule(actor=SYSTEM, pattern="v", team=team("vision"), role="viewer")
        sign_in(client, provider, sub="7", preferred_username="ada", groups=["v"])
        ada = User.objects.get(username="ada")
        set_role(actor=SYSTEM, user=ada, team=team("vision"), role="approver")
        set_role(actor=SYSTEM, user=ada, team=team("speech"), role="viewer")
        client.logout()
        sign_in(client, provider, sub="7", preferred_username="ada", groups=[])
        assert membership("ada") == {"vision": "approver", "speech": "viewer"}

    def test_a_list_of_groups_that_was_left_out_changes_nothing(self, provider, client):
        create_rule(actor=SYSTEM, pattern="v", team=team("vision"), role="viewer")
        sign_in(client, provider, sub="7", preferred_username="ada", groups=["v"])
        client.logout()
        overage = {"_claim_names": {"groups": "src1"}}
        sign_in(client, provider, sub="7", preferred_username="ada", **overage)
        assert membership("ada") == {"vision": "viewer"}

    def test_an_administrator_by_rule_is_one_as_long_as_the_group_says_so(self, provider, client):
        person("root", superuser=True)
        create_rule(actor=SYSTEM, pattern="platform-admins")
        sign_in(client, provider, sub="7", preferred_username="ada", groups=["platform-admins"])
        assert User.objects.get(username="ada").is_superuser
        client.logout()
        sign_in(client, provider, sub="7", preferred_username="ada", groups=[])
        assert not User.objects.get(username="ada").is_superuser

    def test_the_last_administrator_stays_one(self, provider, client):
        create_rule(actor=SYSTEM, pattern="platform-admins")
        sign_in(client, provider, sub="7", preferred_username="ada", groups=["platform-admins"])
        client.logout()
        sign_in(client, provider, sub="7", preferred_username="ada", groups=[])
        assert User.objects.get(username="ada").is_superuser

    def test_the_last_admin_of_a_team_goes_and_the_record_says_that_it_has_none(self, provider, client):
        rule = create_rule(actor=SYSTEM, pattern="v", team=team("vision"), role="admin")
        sign_in(client, provider, sub="7", preferred_username="ada", groups=["v"])
        delete_rule(actor=SYSTEM, rule=rule)
        assert membership("ada") == {}
        assert AuditRecord.objects.get(action="member.remove").detail["warning"]

    def test_the_break_glass_account_has_what_people_gave_it(self, provider, client, settings):
        create_rule(actor=SYSTEM, pattern="v", team=team("vision"), role="viewer")
        settings.SLIPWAY_BREAK_GLASS_ACCOUNT = "ada"
        sign_in(client, provider, sub="7", preferred_username="ada", groups=["v"])
        assert membership("ada") == {}


def known(username: str, *groups: str) -> User:
    user = person(username)
    Identity.objects.create(user=user, provider="sso", subject=username, groups=list(groups))
    return user


@pytest.mark.django_db
class TestRules:
    def test_a_change_of_rules_counts_at_once_for_people_who_are_known(self):
        known("ada", "v")
        rule = create_rule(actor=SYSTEM, pattern="v", team=team("vision"), role="viewer")
        assert membership("ada") == {"vision": "viewer"}
        change_rule(actor=SYSTEM, rule=rule, role="developer")
        assert membership("ada") == {"vision": "developer"}
        delete_rule(actor=SYSTEM, rule=rule)
        assert membership("ada") == {}

    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"pattern": ""}, "pattern"),
            ({"pattern": "v\u200b"}, "pattern"),
            ({"pattern": "*"}, "pattern"),
            ({"pattern": "*admins"}, "pattern"),
            ({"pattern": "v", "role": "viewer"}, "team"),
        ],
    )
    def test_what_would_give_too_much_or_nothing_is_refused(self, given, field):
        with pytest.raises(Invalid) as refusal:
            create_rule(actor=SYSTEM, **given)
        assert field in refusal.value.fields

    def test_a_wide_pattern_makes_no_admins_of_a_team(self):
        with pytest.raises(Invalid):
            create_rule(actor=SYSTEM, pattern="*", team=team("vision"), role="admin")
        create_rule(actor=SYSTEM, pattern="*", team=team("vision"), role="viewer")

    def test_there_is_one_rule_for_a_group_and_a_team(self):
        create_rule(actor=SYSTEM, pattern="v", team=team("vision"), role="viewer")
        with pytest.raises(Conflict):
            create_rule(actor=SYSTEM, pattern="v", team=team("vision"), role="admin")
        create_rule(actor=SYSTEM, pattern="root")
        with pytest.raises(Conflict):
            create_rule(actor=SYSTEM, pattern="root")

    def test_the_dry_run_tells_who_gains_and_loses_and_changes_nothing(self):
        known("ada", "v"), known("bob", "w"), known("cyd")
        create_rule(actor=SYSTEM, pattern="v", team=team("vision"), role="viewer")
        vision = Team.objects.get(name="vision").pk
        found = selectors.dry_run([GroupPattern("w", vision, "developer")])
        told = {
            one.user.username: [(shift.sign, shift.team) for shift in shifts] for one, shifts in found.people
        }
        assert told == {"ada": [("lost", "vision")], "bob": [("gained", "vision")]}
        assert found.known == 3
        assert membership("ada") == {"vision": "viewer"}

    def test_the_dry_run_asks_no_more_of_the_database_for_more_people(self, django_assert_num_queries):
        for number in range(20):
            known(f"p{number}", "v")
        with django_assert_num_queries(4):
            selectors.dry_run([GroupPattern("v", None, "")])


@pytest.mark.django_db
class TestDoors:
    def test_rest_makes_shows_changes_deletes_and_tries_rules(self):
        known("ada", "v")
        root = api(person("root", superuser=True))
        team("vision")
        asked = {"rules": [{"pattern": "v", "team": "vision", "role": "viewer"}], "groups": ["v"]}
        tried = root.post("group-rules/dry-run/", asked).json()
        shift = {"team": "vision", "before": None, "after": "viewer"}
        assert tried == {
            "known": 1,
            "people": [{"username": "ada", "changes": [shift]}],
            "given": [shift],
        }
        made = root.post("group-rules/", asked["rules"][0])
        assert made.status_code == 201
        assert membership("ada") == {"vision": "viewer"}
        at = f"group-rules/{made.json()['id']}/"
        assert root.call("PATCH", at, {"role": "approver"}).json()["role"] == "approver"
        assert membership("ada") == {"vision": "approver"}
        assert root.call("DELETE", at).status_code == 204
        assert not GroupRule.objects.exists()

    def test_admins_of_a_team_write_no_rules(self):
        admin: Api = api(person("eve", vision="admin"))
        body = {"pattern": "eve", "team": "vision", "role": "admin"}
        assert admin.post("group-rules/", body).status_code == 403
        assert admin.get("group-rules/").status_code == 403
        page = client_of(User.objects.get(username="eve"))
        assert page.get("/settings/sign-on/").status_code == 403
        assert page.post("/settings/sign-on/+new/", {"pattern": "eve"}).status_code == 403
        assert not GroupRule.objects.exists()

    def test_the_page_shows_a_dry_run_before_a_rule_is_made(self):
        known("ada", "v")
        team("vision")
        browser: Client = client_of(person("root", superuser=True))
        blank = browser.get("/settings/sign-on/+new/").content.decode()
        assert '<option value="vision" selected>' in blank
        assert '<option value="viewer" selected>' in blank
        form = {"pattern": "v", "team": "vision", "role": "viewer"}
        shown = browser.post("/settings/sign-on/+new/", form | {"preview": "yes"}).content.decode()
        assert "gains" in shown
        assert "ada" in shown
        assert not GroupRule.objects.exists()
        assert browser.post("/settings/sign-on/+new/", form).status_code == 302
        rule = GroupRule.objects.get()
        assert membership("ada") == {"vision": "viewer"}
        assert "loses" in browser.get(f"/settings/sign-on/{rule.pk}/").content.decode()
        assert "vision" in browser.get("/settings/sign-on/?groups=v,w").content.decode()
        assert browser.post(f"/settings/sign-on/{rule.pk}/delete/").status_code == 302
        assert membership("ada") == {}
