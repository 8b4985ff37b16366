"""Own CPU of one plan for 1,000 machines and 50 services."""

import random
import time

from capacity.planning.law import ObservedLoad, ScalingMemory, law_for, recommend
from capacity.planning.moves import MoveGuards, PoolMachine, plan_moves
from capacity.planning.sharing import Demand, grants


def report() -> None:
    chance = random.Random(1)
    names = [f"service-{index:02}" for index in range(50)]
    machines = [PoolMachine(f"machine-{index:04}", chance.choice([*names, None])) for index in range(1_000)]
    law = law_for(60)
    memories = {
        name: ScalingMemory(tuple((float(t), 30 - t / 60) for t in range(0, 600, 10)), 0.0) for name in names
    }
    began = time.process_time()
    demands = []
    for name in names:
        have = sum(machine.holder == name for machine in machines)
        load = ObservedLoad(600.0, chance.uniform(5, 30), chance.uniform(5, 30))
        told = recommend(law, memories[name], load, have)
        demands.append(Demand(name, 2, 100, 1.0, told.base, told.machines, have))
    granted = grants(len(machines), demands)
    plan = plan_moves(machines, granted, 600.0, MoveGuards(budget=200, dwell_seconds=0))
    print(f"{time.process_time() - began:.3f} CPU s; {len(plan.moves)} moves, {len(plan.held)} held back")
