"""`python -m serving.runtime.child ORDER`: a CPU process, their template, a GPU process,
a process of a task graph, or one of the user's own."""

import json
import sys

from serving.runtime.children import ChildOrder, run_child


def main() -> None:
    order = ChildOrder(**json.loads(sys.argv[1]))
    if order.kind == "gpu":
        from serving.runtime.gpu_process import run
    elif order.kind == "own":
        from serving.runtime.own_process import run
    elif order.kind == "template":
        from serving.runtime.template import run
    elif order.kind == "graph-template":
        from serving.graphs.task_process import run_template as run
    elif order.kind == "graph":
        from serving.graphs.task_process import run
    else:
        from serving.runtime.cpu_process import run
    run_child(order, run)


if __name__ == "__main__":
    main()
