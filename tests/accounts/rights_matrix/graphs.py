from accounts.states import Right
from clusters.models import Cluster
from graphs.models import Graph, TaskGraphPlan
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.graphs.world import REPORT, WISH, description, graph_of, planned


def _graph(scene: Scene) -> Graph:
    return graph_of(scene.team, name=new_name())


def _row(scene: Scene) -> dict[str, int]:
    return {"graph": _graph(scene).pk}


def _beside_a_cluster(scene: Scene) -> dict[str, int]:
    """One that is of this machine, so that it has no KubeRay."""
    Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})
    return _row(scene)


def _profiled(scene: Scene) -> dict[str, int]:
    return {"graph": planned(_graph(scene)).graph_id}


def _proposed(scene: Scene) -> dict[str, int]:
    plan = planned(_graph(scene))
    return {"graph": plan.graph_id, "plan": plan.pk}


def _paused(scene: Scene) -> dict[str, int]:
    row = _graph(scene)
    Graph.objects.filter(pk=row.pk).update(state="paused")
    return {"graph": row.pk}


def _replaced(scene: Scene) -> dict[str, int]:
    plan = planned(_graph(scene))
    TaskGraphPlan.objects.filter(pk=plan.pk).update(state="replaced")
    return {"graph": plan.graph_id}


def _new(scene: Scene) -> dict[str, object]:
    row = _graph(scene)
    name = {"name": new_name(), "team": scene.team.name}
    return {**name, "version": str(row.version), "graph": description().document()}


def _push(scene: Scene) -> dict[str, object]:
    return {"version": str(_graph(scene).version), "graph": description().document()}


GRAPH = "graphs/{graph}/"
RAY_RUN = {"cluster": "local", "name": "words"}
RAY = {
    **RAY_RUN,
    "image": "graphs:1",
    "file": "/app/graph.py",
    "pods": {"cores": 2, "memory_gib": 2},
}
ROUTES = [
    Route("GET", "graphs/", Access.SIGNED_IN, owned=False),
    Route("POST", "graphs/", Right.GRAPHS_WRITE, body=_new, status=201, owned=False),
    Route("GET", GRAPH, Right.READ, fill=_row),
    Route("PATCH", GRAPH, Right.GRAPHS_WRITE, fill=_row, body=lambda _: {"adapt": "off"}),
    Route("GET", f"{GRAPH}items/", Right.READ, fill=_row),
    Route(
        "POST",
        f"{GRAPH}items/retry/",
        Right.GRAPHS_WRITE,
        fill=_row,
        body=lambda _: {"item": "w:1"},
        status=404,
    ),
    Route("POST", f"{GRAPH}push/", Right.GRAPHS_WRITE, fill=_row, body=_push),
    Route("POST", f"{GRAPH}order-profile/", Right.GRAPHS_WRITE, fill=_row),
    Route("POST", f"{GRAPH}pause/", Right.GRAPHS_WRITE, fill=_row),
    Route("POST", f"{GRAPH}resume/", Right.GRAPHS_WRITE, fill=_paused),
    Route("POST", f"{GRAPH}rollback/", Right.GRAPHS_WRITE, fill=_replaced),
    Route("GET", f"{GRAPH}ray/", Right.READ, fill=_beside_a_cluster, query="?cluster=local", status=400),
    Route("POST", f"{GRAPH}ray/submit/", Right.FLEET_OPERATE, fill=_row, body=lambda _: RAY, status=409),
    Route(
        "POST",
        f"{GRAPH}ray/abort/",
        Right.FLEET_OPERATE,
        fill=_beside_a_cluster,
        body=lambda _: RAY_RUN,
        status=400,
    ),
    Route("GET", f"{GRAPH}profile/", Right.READ, fill=_row),
    Route("POST", f"{GRAPH}profile/", Right.GRAPHS_WRITE, fill=_row, body=lambda _: REPORT, status=201),
    Route("GET", f"{GRAPH}plan/", Right.READ, fill=_row),
    Route("POST", f"{GRAPH}plan/", Right.GRAPHS_WRITE, fill=_profiled, body=lambda _: WISH, status=201),
    Route("GET", f"{GRAPH}plan/{{plan}}/", Right.READ, fill=_proposed),
    Route("POST", f"{GRAPH}plan/{{plan}}/start/", Right.GRAPHS_WRITE, fill=_proposed),
]
