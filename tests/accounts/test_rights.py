"""Who may do what."""

from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils import timezone

from accounts import actors, selectors
from accounts.errors import NotAdministrator, OutOfScope, RightMissing
from accounts.models import ApiToken, Membership, Team
from accounts.querysets import TeamOwned
from accounts.services import rights as rights_services
from accounts.services import tokens
from accounts.states import RIGHTS, Right, Role
from common.actor import Actor
from tests.cast import SYSTEM, person, team, token_of

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def actor_of_token(text: str) -> Actor:
    return actors.of_token(tokens.use_token(text))


@pytest.mark.any_database
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("right", Right)
def test_a_member_has_exactly_the_rights_of_the_role(role, right):
    ada = actors.of_user(person("ada", vision=role))
    assert selectors.may(ada, right, team("vision")) == (right in RIGHTS[role])


def test_every_role_may_read_and_only_admins_manage_people():
    assert all(Right.READ in rights for rights in RIGHTS.values())
    assert [role for role in Role if Right.PEOPLE_ADMIN in RIGHTS[role]] == [Role.ADMIN]


def test_a_role_in_one_team_gives_nothing_in_another():
    ada = actors.of_user(person("ada", vision="admin", speech="viewer"))
    assert not selectors.may(ada, Right.MODELS_WRITE, team("speech"))
    assert selectors.may(ada, Right.MODELS_WRITE)
    assert list(selectors.teams_where(ada, Right.MODELS_WRITE)) == [team("vision")]


def test_superusers_and_slipway_itself_may_do_everything_everywhere():
    for actor in (actors.of_user(person("root", superuser=True)), SYSTEM):
        assert all(selectors.may(actor, right, team("vision")) for right in Right)
        assert selectors.may_everywhere(actor, Right.PEOPLE_ADMIN)
        assert team("vision") in selectors.teams_where(actor, Right.READ)


def test_nobody_and_the_inactive_may_do_nothing():
    ada = person("ada", superuser=True, vision="admin")
    signed_in = actors.of_user(ada)
    ada.is_active = False
    ada.save()
    for actor in (
        actors.of_user(None),
        signed_in,
        Actor(name="forged", via="api"),
        Actor(name="x", via="web"),
    ):
        assert not any(selectors.may(actor, right, team("vision")) for right in Right)
        assert not selectors.teams_where(actor, Right.READ).exists()


def test_a_token_has_the_rights_of_its_owner_that_are_in_its_scopes():
    ada = person("ada", vision="developer", speech="viewer")
    actor = actor_of_token(token_of(ada, scopes=["read", "releases.start", "people.admin"]))
    held = {right for right in Right if selectors.may(actor, right, team("vision"))}
    assert held == {Right.READ, Right.RELEASES_START}
    assert not selectors.may(actor, Right.RELEASES_START, team("speech"))


def test_a_token_limited_to_a_team_opens_no_other_even_of_a_superuser():
    root = person("root", superuser=True, vision="admin")
    actor = actor_of_token(token_of(root, only_team=team("vision")))
    assert selectors.may(actor, Right.MODELS_WRITE, team("vision"))
    assert not selectors.may(actor, Right.READ, team("speech"))
    assert not selectors.may_everywhere(actor, Right.READ)


@pytest.mark.parametrize("scopes", [["read"], []])
def test_a_token_of_a_superuser_is_held_to_its_scopes(scopes):
    actor = actor_of_token(token_of(person("root", superuser=True), scopes=scopes))
    assert {right for right in Right if selectors.may_everywhere(actor, right)} == set(scopes)


@pytest.mark.parametrize(
    "loss",
    [
        lambda token: ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now()),
        lambda token: ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now()),
        lambda token: type(token.owner).objects.filter(pk=token.owner_id).update(is_active=False),
        lambda token: Membership.objects.filter(user=token.owner).delete(),
        lambda token: token.delete(),
    ],
    ids=["revoked", "expired", "owner inactive", "owner left the team", "deleted"],
)
def test_an_actor_that_looks_again_has_lost_what_the_token_lost(loss):
    token = tokens.use_token(token_of(person("ada", vision="developer")))
    actor = actors.of_token(token)
    assert selectors.may(actor, Right.READ, team("vision"))
    loss(token)
    assert not selectors.may(actors.again(actor), Right.READ, team("vision"))


def test_a_refusal_names_the_right_and_who_has_it():
    with pytest.raises(RightMissing) as refused:
        rights_services.require(
            actors.of_user(person("ada", vision="viewer")), Right.RELEASES_APPROVE, team("vision")
        )
    assert str(refused.value) == (
        "You may not approve or reject releases in team vision. That takes the right releases.approve, "
        "which these roles have: approver, admin. Ask an admin of the team."
    )


def test_a_refusal_of_a_token_says_that_the_token_lacks_the_scope():
    actor = actor_of_token(token_of(person("ada", vision="developer"), scopes=["read"]))
    with pytest.raises(OutOfScope, match=r"lacks the scope releases\.start"):
        rights_services.require(actor, Right.RELEASES_START, team("vision"))
    with pytest.raises(RightMissing):
        rights_services.require(actor, Right.RELEASES_APPROVE, team("vision"))


def test_only_administrators_of_the_installation_pass_where_everywhere_is_asked():
    with pytest.raises(NotAdministrator):
        rights_services.require_everywhere(actors.of_user(person("ada", vision="admin")), Right.PEOPLE_ADMIN)
    rights_services.require_everywhere(actors.of_user(person("root", superuser=True)), Right.PEOPLE_ADMIN)


class Memberships(TeamOwned[Membership]):
    """Any row with a way to its team will do."""


class TokensOfColleagues(TeamOwned[ApiToken]):
    team_path = "owner__memberships__team"


def test_owned_rows_are_those_of_the_teams_that_grant_the_right():
    ada = person("ada", vision="developer", speech="viewer")
    person("bob", hidden="admin")
    rows = Memberships(Membership)
    assert {row.team.name for row in rows.for_user(ada)} == {"vision", "speech"}
    assert {row.team.name for row in rows.for_user(ada, Right.MODELS_WRITE)} == {"vision"}
    assert not rows.for_actor(actors.of_user(None)).exists()
    assert rows.for_actor(SYSTEM).count() == 3


def test_the_way_to_the_team_may_lead_over_other_rows():
    ada, bob = person("ada", vision="developer"), person("bob", hidden="admin")
    token_of(ada), token_of(bob)
    assert [token.owner for token in TokensOfColleagues(ApiToken).for_user(ada)] == [ada]


def test_an_actor_reads_its_rights_in_one_query_however_many_teams_and_questions(
    django_assert_num_queries,
):
    ada = person("ada", **{f"team{n}": "developer" for n in range(20)})
    teams = list(Team.objects.all())
    actor = actors.of_user(ada)
    with django_assert_num_queries(1):
        assert all(selectors.may(actor, Right.READ, each) for each in teams)
        assert not selectors.may_everywhere(actor, Right.READ)
    of_token = actors.of_token(
        ApiToken.objects.select_related("owner").get(prefix=token_of(ada).split("_")[1])
    )
    with django_assert_num_queries(1):
        assert all(selectors.may(of_token, Right.READ, each) for each in teams)


def test_people_who_have_a_right_are_found_for_an_inbox():
    person("ada", vision="approver"), person("bob", vision="developer"), person("cyd", speech="approver")
    gone = person("dan", vision="admin")
    gone.is_active = False
    gone.save()
    assert [p.username for p in selectors.people_with(Right.RELEASES_APPROVE, team("vision"))] == ["ada"]


def test_a_scope_that_is_no_right_any_more_gives_nothing():
    text = token_of(person("root", superuser=True), scopes=["read"])
    ApiToken.objects.update(scopes=["read", "moon.landing"], expires_at=timezone.now() + timedelta(hours=1))
    assert selectors.may_everywhere(actor_of_token(text), Right.READ)


def test_a_database_refuses_a_role_that_does_not_exist():
    with pytest.raises(IntegrityError):
        Membership.objects.create(user=person("ada"), team=team("vision"), role="king")


def test_a_token_limited_to_a_team_does_not_reach_the_whole_installation():
    ada = person("ada", vision=Role.OPERATOR)
    rights_services.require_beyond_a_team(actors.of_user(ada), Right.FLEET_OPERATE)
    rights_services.require_beyond_a_team(actor_of_token(token_of(ada)), Right.FLEET_OPERATE)
    with pytest.raises(OutOfScope, match="limited to one team"):
        rights_services.require_beyond_a_team(
            actor_of_token(token_of(ada, only_team=team("vision"))), Right.FLEET_OPERATE
        )
