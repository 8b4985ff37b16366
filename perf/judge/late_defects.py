"""How late a defect is caught that starts after good behaviour."""

import numpy as np

from perf.judge.eprocesses import log_reject
from perf.judge.traffic import NEVER, first_look, traffic
from releases.judge import eprocess


def minutes_to_catch(
    rng: np.random.Generator, *, runs: int, good_minutes: int, tolerated: float, reserve: float
) -> float:
    """Median minutes from a tripling of the slow share, after good minutes, to the roll-back."""
    bad = np.full(good_minutes + 120, 0.05)
    bad[good_minutes:] = 0.15
    seen = traffic(
        rng,
        runs=runs,
        requests_per_second=20,
        candidate_share=np.full(bad.size, 0.2),
        candidate_bad=bad,
        stable_bad=0.05,
    )
    first = first_look(log_reject(seen, tolerated=tolerated, reserve=reserve) >= np.log(40))
    return float(np.median(np.where(first == NEVER, np.inf, first - float(good_minutes))))


def compare_late_defects(rng: np.random.Generator, runs: int) -> None:
    print("\nMinutes until a slow share that triples from 5 % is caught, 20 requests/s, weight 20 %")
    print(
        f"{'good before':14}{'plain, > 1':>16}{'reserve, > 1':>16}{'plain, > 1.5':>16}{'reserve, > 1.5':>16}"
    )
    for hours in (0, 1, 4):
        cells = [
            minutes_to_catch(rng, runs=runs, good_minutes=60 * hours, tolerated=tolerated, reserve=reserve)
            for tolerated in (1.0, 1.5)
            for reserve in (0.0, eprocess.RESERVE)
        ]
        told = [f"{minutes:.0f}" if np.isfinite(minutes) else "over 120" for minutes in cells]
        print(f"{f'{hours} h':14}" + "".join(f"{cell:>16}" for cell in told))
