"""The judge as it is shipped: through a plan, and what a look costs."""

import json
import time

import numpy as np

from releases.judge.evidence import BadRequestCount, EvidenceIncrement, JudgeEvidence, SideCounts
from releases.judge.rules import JudgeRules
from releases.judge.verdict import JudgeDecision, verdict
from releases.plans.builtin import builtin_plan


def play_quick_plan(
    rng: np.random.Generator, *, requests_per_second: float, errors: float, slow: float, look_seconds: int = 2
) -> tuple[int | None, int | None]:
    """Seconds of candidate traffic until `canary-quick` rolls back, and until it certifies.

    None for what has not happened after a minute of waiting for the approval.
    """
    plan = builtin_plan("canary-quick")
    rules = plan.judge
    evidence = JudgeEvidence.start(rules).with_slow_threshold(100.0)
    share, at, certified = 0.0, 0, None
    for step in plan.steps:
        match step.kind:
            case "weight":
                share = step.percent / 100
                continue
            case "hold":
                seconds = step.seconds
            case "judge":
                seconds = step.at_most_seconds
            case "approval":
                seconds = 60
            case _:
                continue
        for _ in range(seconds // look_seconds):
            arrived = rng.poisson(requests_per_second * look_seconds)
            candidate = int(rng.binomial(arrived, share))
            stable = int(arrived) - candidate
            seen = EvidenceIncrement(
                float(look_seconds),
                {
                    "errors": SideCounts(
                        BadRequestCount(candidate, int(rng.binomial(candidate, errors))),
                        BadRequestCount(stable),
                    ),
                    "slow": SideCounts(
                        BadRequestCount(candidate, int(rng.binomial(candidate, slow))),
                        BadRequestCount(stable, int(rng.binomial(stable, 0.05))),
                    ),
                },
            )
            evidence = evidence.after(seen, rules)
            at += look_seconds
            decision = verdict(evidence, rules).decision
            if decision == JudgeDecision.ROLL_BACK:
                return at, certified
            if decision == JudgeDecision.PROMOTE and certified is None:
                certified = at
    return None, certified


def show_quick_plan(rng: np.random.Generator, runs: int) -> None:
    print(f"\ncanary-quick, the whole judge, {runs} runs: share (median seconds of candidate traffic)")
    print(f"{'candidate':36}{'requests/s':>12}{'rolled back':>18}{'certified':>18}")
    cases = {
        "as good": (0.0, 0.05),
        "twice as often slow": (0.0, 0.1),
        "one request in ten fails": (0.1, 0.05),
        "one in ten fails, the rest is slow": (0.1, 0.6),
    }
    for name, (errors, slow) in cases.items():
        for rate in (8.0, 20.0):
            plays = [
                play_quick_plan(rng, requests_per_second=rate, errors=errors, slow=slow) for _ in range(runs)
            ]
            cells = []
            for seconds in zip(*plays, strict=True):
                reached = [second for second in seconds if second is not None]
                when = f" ({np.median(reached):.0f} s)" if reached else ""
                cells.append(f"{100 * len(reached) / runs:.0f} %{when}")
            print(f"{name:36}{rate:>12.0f}{cells[0]:>18}{cells[1]:>18}")


def cost_of_a_look(looks: int = 2000) -> None:
    rules = JudgeRules()
    evidence = JudgeEvidence.start(rules).with_slow_threshold(500.0)
    sides = SideCounts(BadRequestCount(25, 1), BadRequestCount(75, 4))
    increment = EvidenceIncrement(5.0, {"errors": sides, "slow": sides})
    start = time.process_time()
    for _ in range(looks):
        evidence = evidence.after(increment, rules)
        verdict(evidence, rules)
    microseconds = (time.process_time() - start) / looks * 1e6
    size = len(json.dumps(evidence.to_dict()))
    print(
        f"\nOne look, two indicators: {microseconds:.0f} us with its verdict; evidence {size:,} bytes of JSON"
    )
