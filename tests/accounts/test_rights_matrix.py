"""Every route of the REST API: to whom it opens, and to whom not."""

import re
from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.states import RIGHTS, Right, Role
from tests.accounts.rights_matrix import ROUTES, Access, Route, Scene
from tests.cast import Api, api, person

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("import_root")]
PREFIX = "api/v1/"


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


def main(path: str) -> str:
    """`path` as the matrix names it, where one view has several addresses."""
    slash = "/" if path.startswith("alertmanager/") and not path.endswith("/") else ""
    return path.replace("gpu-health/remediations/", "gpu-health/incidents/") + slash


def weakest_with(right: Right) -> Role:
    return min((role for role in Role if right in RIGHTS[role]), key=lambda role: len(RIGHTS[role]))


def strongest_without(needs: Right | Access) -> Role | None:
    lacking = (role for role in Role if needs not in RIGHTS[role])
    return max(lacking, key=lambda role: len(RIGHTS[role]), default=None)


def scene_of(route: Route) -> Scene:
    """Before somebody who only just may: the least role, with a token for nothing else."""
    if not isinstance(route.needs, Right):
        return Scene.of_superuser() if route.needs is Access.ADMINISTRATOR else Scene.of_role(Role.VIEWER)
    scene = Scene.of_role(weakest_with(route.needs))
    scene.api = api(scene.user, scopes=sorted({Right.READ, route.needs}))
    return scene


def test_every_route_is_in_the_matrix_and_no_other():
    served = set(routes_of(get_resolver().url_patterns))
    assert len(served) >= 20
    assert {(route.method, route.path) for route in ROUTES} == {
        (method, main(path)) for method, path in served
    }


REPORTS = (
    "heartbeats/",
    "relay-reports/",
    "node-reports/",
    "model-files/",
    "benchmark-load/",
    "gpu-health/readings/",
    "gpu-health/events/",
)


def test_the_token_of_an_agent_lists_nothing():
    scene = Scene.of_role(Role.ADMIN)
    agent = api(scene.user, scopes=[Right.FLEET_REPORT])
    tried = [
        route
        for route in ROUTES
        if not route.path.startswith(REPORTS)
        and route.needs is not Access.ANYBODY
        and (route.method == "GET" or route.needs is Access.SIGNED_IN)
    ]
    assert len(tried) > 60
    opened = {}
    for route in tried:
        path = re.sub(r"\{\w+\}", "1", route.path)
        status = agent.call(route.method, path, {} if route.method != "GET" else None).status_code
        if status != 403:
            opened[f"{route.method} {route.path}"] = status
    assert not opened


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_route_opens_to_whoever_has_its_right_and_to_nobody_else(route):
    """Each decision has one caller, the one nearest to its edge; those who change nothing come first."""
    scene = scene_of(route)
    path, body = route.path_in(scene), route.body_in(scene)
    unknown = route.status if route.needs is Access.ANYBODY else 401
    assert Api().call(route.method, path, body).status_code == unknown
    if route.owned:
        stranger = api(person("stranger", theirs=Role.ADMIN))
        answer = stranger.call(route.method, path, body)
        refusals = (403, 404) if route.needs is Access.ADMINISTRATOR else (404,)
        assert answer.status_code in refusals, answer.content
    if route.needs not in (Access.SIGNED_IN, Access.ANYBODY) and (role := strongest_without(route.needs)):
        colleague = api(person("colleague", ours=role))
        answer = colleague.call(route.method, path, body)
        assert answer.status_code == 403, answer.content
        assert answer["Content-Type"] == "application/problem+json"
    answer = scene.api.call(route.method, path, body)
    assert answer.status_code == route.status, answer.content


@pytest.mark.parametrize(
    "route",
    [
        route
        for route in ROUTES
        if route.method != "GET" and route.needs not in (Access.SIGNED_IN, Access.ANYBODY)
    ],
    ids=str,
)
def test_who_lacks_the_right_learns_nothing_of_the_body(route):
    scene = scene_of(route)
    path = route.path_in(scene)
    role = strongest_without(route.needs)
    colleague = api(person("colleague", **({"ours": role} if role else {})))
    for body in ([{"garbage": [1]}], {"garbage": 1}):
        answer = colleague.call(route.method, path, body)
        assert answer.status_code in (403, 404), answer.content
