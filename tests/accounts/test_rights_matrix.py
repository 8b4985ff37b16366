"""Every role before every route of the REST API, on objects of its team and of another."""

from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.models import User
from accounts.states import RIGHTS, Role
from tests.accounts.rights_matrix import ROUTES, Access, Route, Scene
from tests.cast import Api, token_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("import_root")]
PREFIX = "api/v1/"
by_route = pytest.mark.parametrize("route", ROUTES, ids=str)


def routes_of(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes_of(pattern.url_patterns, path)
        elif path.startswith(PREFIX):
            view = pattern.callback
            methods = getattr(view, "actions", None) or {
                name: name for name in ("get", "post", "put", "patch", "delete") if hasattr(view.cls, name)
            }
            for method in methods:
                if method != "head":
                    yield method.upper(), plain(path.removeprefix(PREFIX))


def plain(path: str) -> str:
    """`teams/<str:team>/` as `teams/{team}/`."""
    return "".join(
        "{" + part.split(">")[0].split(":")[-1] + "}" + part.split(">")[1] if ">" in part else part
        for part in path.split("<")
    )


def allowed(role: Role | None, route: Route) -> bool:
    if route.needs is Access.SIGNED_IN:
        return True
    if route.needs is Access.ADMINISTRATOR or role is None:
        return False
    return route.needs in RIGHTS[role]


def test_every_route_is_in_the_matrix_and_no_other():
    served = set(routes_of(get_resolver().url_patterns))
    assert len(served) >= 20
    assert {(route.method, route.path) for route in ROUTES} == served


@by_route
@pytest.mark.parametrize("role", Role)
def test_a_role_opens_a_route_exactly_if_it_has_the_right(role, route):
    scene = Scene.of_role(role)
    answer = scene.api.call(route.method, route.path_in(scene), route.body_in(scene))
    assert answer.status_code == (route.status if allowed(role, route) else 403), answer.content
    if not allowed(role, route):
        assert answer["Content-Type"] == "application/problem+json"


@by_route
def test_a_superuser_opens_every_route(route):
    scene = Scene.of_superuser()
    answer = scene.api.call(route.method, route.path_in(scene), route.body_in(scene))
    assert answer.status_code == route.status, answer.content


@by_route
def test_nobody_opens_no_route(route):
    scene = Scene.of_superuser()
    answer = Api().call(route.method, route.path_in(scene), route.body_in(scene))
    assert answer.status_code == 401


@pytest.mark.parametrize("route", [route for route in ROUTES if route.owned], ids=str)
def test_an_admin_of_one_team_cannot_tell_that_an_object_of_another_exists(route):
    scene = Scene.of_role(Role.ADMIN)
    theirs = scene.in_team("theirs")
    answer = scene.api.call(route.method, route.path_in(theirs), route.body_in(theirs))
    assert answer.status_code == 404, answer.content


@by_route
def test_a_token_without_the_scope_opens_only_what_needs_none(route):
    scene = Scene.of_superuser()
    scopes = ["read"] if route.needs is not Access.ADMINISTRATOR else ["read", "models.write"]
    scene.api = Api(token_of(scene.user, scopes=scopes))
    answer = scene.api.call(route.method, route.path_in(scene), route.body_in(scene))
    open_to_readers = route.needs is Access.SIGNED_IN or str(route.needs) == "read"
    if route.method == "DELETE" and route.path == "tokens/{id}/":
        # Its own token has more scopes than the one that asks.
        open_to_readers = False
    assert answer.status_code == (route.status if open_to_readers else 403), answer.content


@by_route
def test_a_token_of_someone_inactive_opens_no_route(route):
    scene = Scene.of_superuser()
    path, body = route.path_in(scene), route.body_in(scene)
    User.objects.filter(pk=scene.user.pk).update(is_active=False)
    assert scene.api.call(route.method, path, body).status_code == 401
