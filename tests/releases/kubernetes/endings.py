"""The ways in which a release ends, as a test lives through them, and what must be so afterwards."""

from collections.abc import Callable
from contextlib import suppress

from clusters.backends.kubernetes.groups import set_name
from clusters.models import Cluster, Deployment
from clusters.services.deployments import remove_deployment
from clusters.states import DeploymentState
from common import audit
from common.fence import Fence
from gateway.backends.configured import traffic_backend_of
from gateway.backends.fake import Behaviour
from gateway.errors import GatewayError
from gateway.models import Route
from gateway.services.routes import remove_route
from releases.models import Release, Service
from releases.services.plan import save_plan
from releases.services.release import abort, rollback
from releases.states import MOVES
from releases.states import ReleaseState as S
from tests.cast import SYSTEM
from tests.releases.kubernetes.world import NAMESPACE, PLAN, SERVICE, KubernetesScene

GROUPS = "leaderworkersets.leaderworkerset.x-k8s.io"
MADE_BY_CONTROLLERS = ("pods", "replicasets.apps", "statefulsets.apps", "controllerrevisions.apps")
AFTER_ALL = 10**6
"""A turn that no step of a release takes."""


def live(scene: KubernetesScene, until: Callable[[], bool], *, seconds: float = 900) -> None:
    """Approves what asks for it, and tries again what is stuck."""

    def is_over() -> bool:
        state = scene.state()
        if state == S.WAITING_APPROVAL and not scene.release.approvals.exists():
            scene.approve()
        for row in (scene.release, *Deployment.objects.filter(stuck_at__isnull=False)):
            if row.stuck_at is not None:
                scene.worker().try_again(row, actor=SYSTEM, reason="Once more.")
        return until()

    scene.run_until(is_over, seconds=seconds)


def has_ended(scene: KubernetesScene) -> bool:
    return MOVES.is_final(scene.state())


def promoted(scene: KubernetesScene) -> None:
    live(scene, lambda: has_ended(scene))


def aborted(scene: KubernetesScene, at_step: int = 4) -> None:
    live(scene, lambda: has_ended(scene) or scene.release.step_index >= at_step)
    if not has_ended(scene) and not scene.release.halt:
        abort(scene.release, actor=scene.requester, reason="no")
    live(scene, lambda: has_ended(scene))


def judged(scene: KubernetesScene) -> None:
    scene.clients.behave(scene.candidate, Behaviour(error_share=0.9))
    live(scene, lambda: has_ended(scene))


def cannot_run(scene: KubernetesScene) -> None:
    scene.broken.add(scene.candidate)
    live(scene, lambda: has_ended(scene))


def name_taken(scene: KubernetesScene) -> None:
    """Another team has a Deployment of the name that the candidate's would have."""
    scene.take_name(set_name(scene.candidate) if scene.in_groups else scene.candidate)
    live(scene, lambda: has_ended(scene))


def taken_back(scene: KubernetesScene) -> None:
    """Promoted, and while the old workers are still there, undone."""
    promoted(scene)
    is_first = scene.release.undoes_id is None
    if is_first and scene.state() == S.PROMOTED and scene.release.bake_until is not None:
        scene.release = rollback(scene.release, actor=scene.requester, reason="worse")
        live(scene, lambda: has_ended(scene))


def taken_away(scene: KubernetesScene) -> None:
    """Promoted; then the service's route and workers are removed."""
    promoted(scene)
    scene.clients.is_closed = True
    with suppress(GatewayError):
        remove_route(SERVICE, fence=Fence(AFTER_ALL, 1), actor=SYSTEM)
    for row in Deployment.objects.exclude(state=DeploymentState.REMOVED):
        remove_deployment(actor=SYSTEM, name=row.name, reason="The service ends.")


ENDINGS: dict[str, tuple[Callable[[KubernetesScene], None], S]] = {
    "promoted": (promoted, S.PROMOTED),
    "aborted": (aborted, S.ABORTED),
    "judged": (judged, S.ROLLED_BACK),
    "cannot run": (cannot_run, S.FAILED),
    "name taken": (name_taken, S.FAILED),
    "taken back": (taken_back, S.PROMOTED),
    "taken away": (taken_away, S.PROMOTED),
}
"""Each with the state in which it ends where nothing comes in between."""


def begin(scene: KubernetesScene, ending: str) -> None:
    save_plan(
        actor=SYSTEM,
        team=scene.team,
        name="brief",
        body=PLAN | {"bake_seconds": 120 if ending == "taken back" else 0},
    )
    scene.start()


def settle(scene: KubernetesScene) -> None:
    """Nothing goes wrong any more, what is late comes, and everybody goes on until there is nothing to do."""
    scene.strikes.end()
    scene.run_for(3)
    scene.chaos.serve_late()
    for row in Release.objects.exclude(bake_until=None):
        scene.clock.at = max(scene.clock.at, row.bake_until or scene.clock.at)
    live(scene, lambda: is_at_rest(scene), seconds=200)
    # As at the checks of a cluster, every few minutes.
    Cluster.objects.update(checked_at=None, next_at=scene.clock())
    scene.run_for(6)
    live(scene, lambda: is_at_rest(scene), seconds=200)


def is_at_rest(scene: KubernetesScene) -> bool:
    moving = Deployment.objects.exclude(state__in=(DeploymentState.READY, DeploymentState.REMOVED))
    untold = Route.objects.filter(applied_at=None)
    baking = Release.objects.exclude(bake_until=None)
    return has_ended(scene) and not any(rows.exists() for rows in (moving, untold, baking))


def check(scene: KubernetesScene) -> None:
    """Check that the cluster has only what the rows say, and that what others have is as it was."""
    service, route = Service.objects.get(), Route.objects.get()
    living = set(Deployment.objects.exclude(state=DeploymentState.REMOVED).values_list("name", flat=True))
    gone = set(Deployment.objects.filter(state=DeploymentState.REMOVED).values_list("name", flat=True))
    if route.removed_at is None:
        assert living == {service.stable_deployment}, "rows of workers that serve nobody"
        assert (route.spec.stable.name, route.spec.candidate) == (service.stable_deployment, None)
        assert route.spec.cohort is None
        assert scene.weights() == {service.stable_deployment: 100}
        assert scene.clients.ask(SERVICE, 20) == {service.stable_deployment: 20}
        assert scene.running(service.stable_deployment) == 2
    else:
        assert (living, scene.weights()) == (set(), {})
    desired = traffic_backend_of(scene.cluster).desired_route(SERVICE)
    assert desired == (None if route.removed_at else route.spec)
    check_objects(scene, living=living, gone=gone)
    assert scene.clients.unserved == []
    assert audit.verify().intact


def check_objects(scene: KubernetesScene, *, living: set[str], gone: set[str]) -> None:
    now = scene.objects()
    assert {key: scene.plain(now.get(key, {})) for key in scene.foreign} == scene.foreign
    ours = now.keys() - scene.foreign.keys()
    named = {(resource, name) for resource, namespace, name in ours if namespace == NAMESPACE}
    assert len(named) == len(ours), "something elsewhere"
    made = {kind: {name for resource, name in named if resource == kind} for kind in MADE_BY_CONTROLLERS}
    assert len(made["pods"]) == 2 * len(living) * (2 if scene.in_groups else 1), (
        "a worker too many or too few"
    )
    assert len(made["replicasets.apps"]) == (0 if scene.in_groups else len(living))
    kinds = ("configmaps", "services", "poddisruptionbudgets.policy")
    wanted = {(kind, name) for kind in kinds for name in living}
    wanted |= {(kind, name) for kind, names in made.items() for name in names}
    if scene.in_groups:
        sets = {set_name(name) for name in living}
        wanted |= {(kind, name) for name in sets for kind in ("services", GROUPS)}
    else:
        wanted |= {("deployments.apps", name) for name in living}
    wanted |= {("secrets", "slipway-store")}
    tombstones = {("configmaps", f"{name}.removed") for name in gone}
    if not scene.is_theirs:
        tombstones.add(("httproutes.gateway.networking.k8s.io", f"slipway-{SERVICE}"))
    assert wanted <= named <= wanted | tombstones, "orphans"
