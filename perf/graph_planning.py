"""CPU seconds and throughput of the planner on graphs at random: `python -m perf.graph_planning`.

The throughput is relative to the bound that the program proves. One replica: of each task, without batches.
"""

from statistics import mean
from time import process_time

from graphs.planning.assignment import Assignment, places_for
from graphs.planning.greedy import grow
from graphs.planning.planner import NoPlan, make_plan
from tests.graphs.random_requests import random_request

SHAPES = ((3, 1), (5, 2), (10, 4), (20, 8), (30, 16))
SEEDS = range(6)


def _one_each(assignment: Assignment) -> float:
    places = {
        task: {places_for(assignment.request, choice.option)[0].key: 1}
        for task, choice in assignment.choices.items()
    }
    return min(Assignment(assignment.request, assignment.choices, places).capacity(task) for task in places)


def main() -> None:
    print("tasks cards  one replica  greedy  plan (worst)  CPU s mean (worst)  no plan")
    for tasks, cards in SHAPES:
        one, greedy, planned, seconds, refused = [], [], [], [], 0
        for seed in SEEDS:
            request = random_request(tasks, cards, seed)
            grown = grow(request)
            began = process_time()
            try:
                plan = make_plan(request)
            except NoPlan:
                refused += 1
                continue
            seconds.append(process_time() - began)
            bound = plan.bound or plan.rate
            planned.append(plan.rate / bound)
            greedy.append(grown.rate / bound if grown else 0.0)
            one.append(_one_each(grown) / bound if grown else 0.0)
        print(
            f"{tasks:5} {cards:5}  {mean(one):11.2f}  {mean(greedy):6.2f}  {mean(planned):.2f} "
            f"({min(planned):.2f})   {mean(seconds):.2f} ({max(seconds):.2f})           {refused}"
        )


if __name__ == "__main__":
    main()
