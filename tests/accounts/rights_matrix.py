"""Who may call which route of the REST API. A route that is missing here fails `test_rights_matrix.py`.

To add one: name its method and path as the URLconf has it, the right it needs in the team that owns the
object (or one of `Access`), how to fill its path and its body for a scene, and the status on success.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from django.utils import timezone

from accounts.models import ApiToken, User
from accounts.states import Right, Role
from clusters.backends import backend_of
from clusters.backends.base import DeploymentSpec, Fence
from clusters.models import Cluster, Deployment, Node, Worker
from tests.cast import PASSWORD, Api, person, team, token_of
from tests.clusters.world import version_of

_numbers = count()


class Access(Enum):
    SIGNED_IN = "anyone who is signed in"
    ADMINISTRATOR = "administrators of the installation"


class Scene:
    """One caller with a role in team `ours`, and the objects that routes are tried on, made when asked for.

    `theirs` is the same cast for a team that the caller is not in.
    """

    def __init__(self, team_name: str, caller: User) -> None:
        self.user = caller
        self.team = team(team_name)
        self.api = Api(token_of(caller))

    @classmethod
    def of_role(cls, role: Role | None) -> "Scene":
        name = f"caller{next(_numbers)}"
        return cls("ours", person(name, **({"ours": role} if role else {})))

    @classmethod
    def of_superuser(cls) -> "Scene":
        return cls("ours", person(f"caller{next(_numbers)}", superuser=True))

    def in_team(self, name: str) -> "Scene":
        """The same caller before the objects of another team."""
        scene = object.__new__(Scene)
        scene.user, scene.team, scene.api = self.user, team(name), self.api
        return scene

    @cached_property
    def admin(self) -> User:
        """Keeps the team from losing its last admin."""
        return person(f"admin{next(_numbers)}", **{self.team.name: Role.ADMIN})

    @cached_property
    def member(self) -> User:
        _ = self.admin
        return person(f"member{next(_numbers)}", **{self.team.name: Role.VIEWER})

    @cached_property
    def outsider(self) -> User:
        return person(f"outsider{next(_numbers)}")

    @cached_property
    def cluster(self) -> Cluster:
        """A cluster of the team, with a machine."""
        cluster = Cluster.objects.create(name=f"cluster{next(_numbers)}", kind="embedded", team=self.team)
        Node.objects.create(cluster=cluster, name="box", seen_at=timezone.now())
        return cluster

    @cached_property
    def worker(self) -> Worker:
        """One that has written a log, of a deployment of the team."""
        name = f"chat{next(_numbers)}"
        deployment = Deployment.objects.create(
            name=name,
            cluster=self.cluster,
            team=self.team,
            service="chat",
            version=version_of(self.team, f"{name}:v1"),
            version_label=f"{name}:v1",
            engine="echo",
            replicas=1,
            slots=1,
        )
        spec = DeploymentSpec(
            name=name,
            service="chat",
            version_label=f"{name}:v1",
            model_dir=Path(),
            engine="echo",
            replicas=1,
        )
        backend_of(self.cluster).apply(spec, fence=Fence(deployment.pk, 1))
        return Worker.objects.create(
            deployment=deployment, name=f"{name}-0", ordinal=0, state="ready", state_since=timezone.now()
        )

    @cached_property
    def own_token(self) -> ApiToken:
        return ApiToken.objects.get(prefix=token_of(self.user).split("_")[1])


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    needs: Right | Access
    fill: Callable[[Scene], Mapping[str, Any]] = field(default=lambda scene: {})
    body: Callable[[Scene], Any] = field(default=lambda scene: None)
    status: int = 200
    owned: bool = True
    """The path leads to something of a team, so that another team's members get a 404."""

    def path_in(self, scene: Scene) -> str:
        return self.path.format_map(dict(self.fill(scene)))

    def body_in(self, scene: Scene) -> Any:
        return self.body(scene)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _team(scene: Scene) -> Mapping[str, Any]:
    return {"team": scene.team.name}


def _member(scene: Scene) -> Mapping[str, Any]:
    return {"team": scene.team.name, "username": scene.member.username}


def _person(scene: Scene) -> Mapping[str, Any]:
    return {"username": scene.member.username}


def _token(scene: Scene) -> Mapping[str, Any]:
    return {"id": scene.own_token.pk}


def _cluster(scene: Scene) -> Mapping[str, Any]:
    return {"cluster": scene.cluster.name}


def _node(scene: Scene) -> Mapping[str, Any]:
    return {"cluster": scene.cluster.name, "id": scene.cluster.nodes.get().pk}


def _deployment(scene: Scene) -> Mapping[str, Any]:
    return {"deployment": scene.worker.deployment.name}


def _worker(scene: Scene) -> Mapping[str, Any]:
    return {"worker": scene.worker.name}


def _new_name(scene: Scene) -> str:
    return f"new{next(_numbers)}"


ROUTES = [
    Route("GET", "clusters/", Access.SIGNED_IN, owned=False),
    Route("GET", "clusters/{cluster}/", Right.READ, fill=_cluster),
    Route("GET", "clusters/{cluster}/busy/", Right.READ, fill=_cluster),
    Route("GET", "clusters/{cluster}/nodes/", Right.READ, fill=_cluster),
    Route("GET", "clusters/{cluster}/nodes/{id}/", Right.READ, fill=_node),
    Route("GET", "deployments/", Access.SIGNED_IN, owned=False),
    Route("GET", "deployments/{deployment}/", Right.READ, fill=_deployment),
    Route("GET", "workers/{worker}/log/", Right.READ, fill=_worker),
    Route("POST", "heartbeats/", Right.FLEET_REPORT, body=lambda scene: {"workers": []}, owned=False),
    Route("GET", "me/", Access.SIGNED_IN, owned=False),
    Route("GET", "people/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "people/",
        Right.PEOPLE_ADMIN,
        body=lambda scene: {
            "username": _new_name(scene),
            "password": PASSWORD,
            "team": scene.team.name,
            "role": "viewer",
        },
        status=201,
        owned=False,
    ),
    Route("GET", "people/{username}/", Right.READ, fill=_person),
    Route(
        "PATCH",
        "people/{username}/",
        Access.ADMINISTRATOR,
        fill=_person,
        body=lambda scene: {"email": "new@example.org"},
    ),
    Route(
        "POST",
        "people/{username}/password/",
        Access.ADMINISTRATOR,
        fill=_person,
        body=lambda scene: {"password": "a new good phrase"},
        status=204,
    ),
    Route("GET", "teams/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "teams/",
        Access.ADMINISTRATOR,
        body=lambda scene: {"name": _new_name(scene)},
        status=201,
        owned=False,
    ),
    Route("GET", "teams/{team}/", Right.READ, fill=_team),
    Route("PATCH", "teams/{team}/", Right.PEOPLE_ADMIN, fill=_team, body=lambda scene: {"description": "x"}),
    Route("DELETE", "teams/{team}/", Access.ADMINISTRATOR, fill=_team, status=204),
    Route("GET", "teams/{team}/members/", Right.READ, fill=_team),
    Route(
        "POST",
        "teams/{team}/members/",
        Right.PEOPLE_ADMIN,
        fill=_team,
        body=lambda scene: {"username": scene.outsider.username, "role": "viewer"},
        status=201,
    ),
    Route("GET", "teams/{team}/members/{username}/", Right.READ, fill=_member),
    Route(
        "PUT",
        "teams/{team}/members/{username}/",
        Right.PEOPLE_ADMIN,
        fill=_member,
        body=lambda scene: {"role": "developer"},
    ),
    Route("DELETE", "teams/{team}/members/{username}/", Right.PEOPLE_ADMIN, fill=_member, status=204),
    Route("GET", "tokens/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "tokens/",
        Access.SIGNED_IN,
        body=lambda scene: {"name": "x", "scopes": ["read"]},
        status=201,
        owned=False,
    ),
    Route("GET", "tokens/{id}/", Access.SIGNED_IN, fill=_token, owned=False),
    Route("DELETE", "tokens/{id}/", Access.SIGNED_IN, fill=_token, status=204, owned=False),
]
