"""An application as a DAG of tasks: docs/GRAPHS.md. Needs no Django."""

from serving.graphs.edge_types import EncodedImage as Image
from serving.graphs.errors import GraphError, ItemFailed
from serving.graphs.loading import load_graph
from serving.graphs.plan import EntryLimits, GraphPlan, TaskPlan
from serving.graphs.program import Graph, GraphValue, task
from serving.graphs.serial import SerialRun
from serving.graphs.service_tasks import service
from serving.graphs.task_options import Batch
from serving.graphs.task_process import empty

__all__ = [
    "Batch",
    "EntryLimits",
    "Graph",
    "GraphError",
    "GraphPlan",
    "GraphValue",
    "Image",
    "ItemFailed",
    "SerialRun",
    "TaskPlan",
    "empty",
    "load_graph",
    "service",
    "task",
]
