"""Sessions of several requests that fail together: what the judge makes of them, sticky or not."""

import numpy as np

from perf.judge.eprocesses import log_reject
from perf.judge.traffic import RAMP, SimulatedTraffic, caught, first_look
from releases.judge.rules import JudgeRules

PER_SESSION = 8
SPREAD_LOOKS = 5
"""A session's requests come within so many looks."""


def sessions(
    rng: np.random.Generator,
    *,
    runs: int,
    requests_per_second: float,
    candidate_bad: float,
    stable_bad: float,
    sticky: bool,
    together: float = 1.0,
    look_seconds: float = 60.0,
) -> SimulatedTraffic:
    """Like `traffic`, in sessions. `together`: the share of sessions of one fate, all bad or none.

    Sticky ones stay on the side that they were dealt at their first request.
    """
    looks = RAMP.size
    counts = np.zeros((4, runs, looks), dtype=np.int64)
    per_look = requests_per_second * look_seconds / PER_SESSION
    arrived = rng.poisson(per_look, (runs, looks))
    run, start = (np.repeat(index.ravel(), arrived.ravel()) for index in np.indices(arrived.shape))
    fate = rng.random(run.size)
    is_whole = rng.random(run.size) < together
    dealt = rng.random(run.size)
    for _ in range(PER_SESSION):
        look = start + rng.integers(0, SPREAD_LOOKS, run.size)
        seen = look < looks
        # Where every request is dealt anew, at the weight of then; where they stick, at that of the start.
        share = RAMP[np.minimum(start if sticky else look, looks - 1)]
        to_candidate = (dealt if sticky else rng.random(run.size)) < share
        luck = np.where(is_whole, fate, rng.random(run.size))
        is_bad = luck < np.where(to_candidate, candidate_bad, stable_bad)
        for row, chosen in enumerate((to_candidate, ~to_candidate)):
            for kind, those in enumerate((chosen & seen, chosen & seen & is_bad)):
                np.add.at(counts[2 * row + kind], (run[those], look[those]), 1)
    return SimulatedTraffic(*counts)


def rolled_back(seen: SimulatedTraffic, *, per_session: int) -> tuple[float, float]:
    """Percentage that the errors of `JudgeRules()` roll back, and the median look at which."""
    looks = first_look(
        log_reject(seen, tolerated=1.0, per_session=per_session) >= JudgeRules().log_reject_limit
    )
    found = looks[looks <= RAMP.size]
    return caught(looks), float(np.median(found)) if found.size else float("nan")


def compare_sessions(rng: np.random.Generator, runs: int) -> None:
    print(f"\nSessions of {PER_SESSION} requests that fail together, {runs:,} runs of 60 min, 5 -> 50 %")
    print(f"{'':44}{'requests/s':>12}{'equal (2 %)':>14}{'2 -> 8 % errors':>24}")
    cases = {
        "dealt request by request, judged by request": (False, 1),
        "sticky, judged by request": (True, 1),
        "sticky, judged by session": (True, PER_SESSION),
    }
    for name, (sticky, per_session) in cases.items():
        for rate in (2.0, 20.0):
            cells = []
            for candidate_bad in (0.02, 0.08):
                seen = sessions(
                    rng,
                    runs=runs,
                    requests_per_second=rate,
                    candidate_bad=candidate_bad,
                    stable_bad=0.02,
                    sticky=sticky,
                )
                share, when = rolled_back(seen, per_session=per_session)
                cells.append(f"{share:.1f} %" + (f" @{when:.0f} min" if candidate_bad > 0.02 else ""))
            print(f"{name:44}{rate:>12.0f}{cells[0]:>14}{cells[1]:>24}")
