"""A caller before the objects of a team, and what a line of the matrix says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from django.conf import settings
from django.utils import timezone

from accounts.models import ApiToken, User, WebhookDelivery, WebhookEndpoint, WebhookEvent
from accounts.services.webhooks import create_webhook
from accounts.states import DeliveryState, Right, Role
from clusters.backends.base import DeploymentSpec, ModelVersion
from clusters.backends.configured import backend_of
from clusters.models import Cluster, Deployment, Node, Worker
from common.fence import Fence
from hubs.models import Export, HubSource, HubSync
from images.models import RuntimeImage
from images.services import deprecate_image
from models_registry.importing.sources import allowed_directory
from models_registry.models import Alias, CodeExemption, Model, RetentionRule, Version, VersionSignature
from releases.models import Plan, Release, Service, TeamPolicy
from releases.plans.builtin import builtin_plan
from releases.plans.plan import plan_hash
from releases.services.policy import set_team_policy
from tests.cast import SYSTEM, Api, person, team, token_of
from tests.clusters.world import version_of
from tests.images.builders import image
from trust.models import SignaturePolicy, TrustedKey
from trust.services import demand_signatures, trust_key
from trust.signing.keys import PrivateKey

CANARY = builtin_plan("canary")

_numbers = count()


class Access(Enum):
    ANYBODY = "anybody: the body proves who it is"
    SIGNED_IN = "anyone who is signed in"
    ADMINISTRATOR = "administrators of the installation"


class Scene:
    """A caller with a role in team `ours`, and the objects that routes are tried on, made when asked for.

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
        Node.objects.create(cluster=cluster, uid="box", name="box", seen_at=timezone.now())
        return cluster

    @cached_property
    def worker(self) -> Worker:
        """A worker of a deployment of the team; it has written a log."""
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
            version=ModelVersion(id=deployment.version_id, label=f"{name}:v1"),
            engine="echo",
            replicas=1,
        )
        backend_of(self.cluster).apply(spec, fence=Fence(deployment.pk, 1))
        return Worker.objects.create(
            deployment=deployment,
            uid=f"{name}-0",
            name=f"{name}-0",
            state="ready",
            state_since=timezone.now(),
        )

    @cached_property
    def model(self) -> Model:
        return Model.objects.create(team=self.team, name=new_name())

    def version(self, state: str = "ready", name: str = "") -> Version:
        """The model's version of that name, `v1` if it is ready, made when asked for."""
        name = name or {"ready": "v1"}.get(state, state)
        whole = {"digest": "0" * 64, "ready_at": timezone.now(), "file_count": 1}
        return Version.objects.get_or_create(
            model=self.model,
            name=name,
            defaults={
                "number": Version.objects.filter(model=self.model).count() + 1,
                "state": state,
                "source": allowed_directory(
                    str(settings.SLIPWAY_IMPORT_ROOTS[0]),
                    roots=settings.SLIPWAY_IMPORT_ROOTS,
                    store=Path(settings.SLIPWAY_STORE_DIR),
                ).as_json(ignore_patterns=[]),
                **(whole if state in ("ready", "archived") else {}),
            },
        )[0]

    @cached_property
    def alias(self) -> Alias:
        return Alias.objects.create(
            model=self.model, name="production", version=self.version(), moved_by="someone"
        )

    @property
    def soon(self) -> str:
        return (timezone.now() + timedelta(days=1)).isoformat()

    @cached_property
    def exemption(self) -> CodeExemption:
        until = timezone.now() + timedelta(days=1)
        return CodeExemption.objects.create(team=self.team, reason="read", until=until)

    @cached_property
    def public_key(self) -> str:
        return PrivateKey(generate_private_key(SECP256R1())).public_key.pem

    @cached_property
    def trusted_key(self) -> TrustedKey:
        return trust_key(actor=SYSTEM, team=self.team, name=new_name(), pem=self.public_key, reason="known")

    def signed_version(self) -> Version:
        """A version with a signature whose signer is unknown."""
        version = self.version()
        VersionSignature.objects.get_or_create(
            version=version,
            origin="files",
            defaults={"bundle": "{}", "verdict": "unknown", "verified_at": timezone.now()},
        )
        return version

    @cached_property
    def signature_policy(self) -> SignaturePolicy:
        return demand_signatures(actor=SYSTEM, team=self.team, demand="warn", reason="try")

    @cached_property
    def hub_source(self) -> HubSource:
        return self._new_hub_source()

    def _new_hub_source(self) -> HubSource:
        endpoint = settings.SLIPWAY_HUB_ENDPOINTS[0]
        return HubSource.objects.create(model=self.model, endpoint=endpoint, repo_id=f"acme/{new_name()}")

    def sync(self, state: str) -> HubSync:
        """A sync in that state, of a source of its own, with a version that is being imported."""
        found = HubSync.objects.filter(source__model=self.model, state=state).first()
        return found or HubSync.objects.create(
            source=self._new_hub_source(), state=state, version=self.version("importing")
        )

    def export(self, state: str) -> Export:
        """An export in that state, to a repository of its own."""
        found = Export.objects.filter(version__model=self.model, state=state).first()
        endpoint = settings.SLIPWAY_EXPORT_ENDPOINTS[0]
        target = {"endpoint": endpoint, "repo_id": f"acme/{new_name()}", "why": "it is asked for"}
        return found or Export.objects.create(version=self.version(), state=state, **target)

    @cached_property
    def rule(self) -> RetentionRule:
        """A rule that is applied every day."""
        return RetentionRule.objects.create(
            model=self.model, keep_last=2, is_daily=True, due_at=timezone.now(), changed_by_name="someone"
        )

    @cached_property
    def image(self) -> RuntimeImage:
        return image(new_name(), self.team)

    @cached_property
    def unpulled_image(self) -> RuntimeImage:
        now = timezone.now()
        self.image.pull_failures.create(
            cluster=self.cluster.name, team=self.team, reason="not found", since=now, at=now
        )
        return self.image

    @cached_property
    def deprecated_image(self) -> RuntimeImage:
        return deprecate_image(actor=SYSTEM, image=self.image, reason="old")

    @cached_property
    def plan(self) -> Plan:
        body = CANARY.model_dump(mode="json")
        return Plan.objects.create(
            team=self.team, name=new_name(), body=body, hash=plan_hash(CANARY), changed_by="someone"
        )

    @cached_property
    def release_policy(self) -> TeamPolicy:
        return set_team_policy(actor=SYSTEM, team=self.team, policy={"approval": "anyone"})

    @cached_property
    def service(self) -> Service:
        return Service.objects.create(
            team=self.team,
            name=new_name(),
            model=self.model,
            cluster=self.cluster,
            engine="echo",
            stable_version=self.version(),
            stable_deployment=new_name(),
            created_by="someone",
        )

    @cached_property
    def release(self) -> Release:
        """A release that somebody else requested and that waits for an approval."""
        step = next(i for i, step in enumerate(CANARY.steps) if step.approval is not None)
        return Release.objects.create(
            service=self.service,
            team=self.team,
            version=self.version("ready", "v2"),
            from_version=self.version(),
            plan_name=CANARY.name,
            plan=CANARY.model_dump(mode="json"),
            plan_hash=plan_hash(CANARY),
            state="waiting_approval",
            step_index=step,
            requester="someone",
        )

    @cached_property
    def paused_release(self) -> Release:
        Release.objects.filter(pk=self.release.pk).update(
            state="paused", paused_at=timezone.now(), paused_by="someone", paused_from="waiting_approval"
        )
        return self.release

    @cached_property
    def own_token(self) -> ApiToken:
        return ApiToken.objects.get(prefix=token_of(self.user).split("_")[1])

    @cached_property
    def webhook(self) -> WebhookEndpoint:
        return create_webhook(actor=SYSTEM, url="https://hooks.example.org/", team=self.team).endpoint

    @cached_property
    def delivery(self) -> WebhookDelivery:
        """A delivery that has arrived."""
        now = timezone.now()
        event = WebhookEvent.objects.create(key=new_name(), type="webhook.test", occurred_at=now, body="{}")
        return WebhookDelivery.objects.create(
            endpoint=self.webhook, event=event, due_at=now, state=DeliveryState.DELIVERED
        )


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
    query: str = ""

    def path_in(self, scene: Scene) -> str:
        return self.path.format_map(dict(self.fill(scene))) + self.query

    def body_in(self, scene: Scene) -> Any:
        return self.body(scene)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def new_name() -> str:
    return f"new{next(_numbers)}"
