"""The rules that tools roll back by, side by side."""

from collections.abc import Callable

import numpy as np

from perf.judge.eprocesses import log_reject
from perf.judge.traffic import NEVER, RAMP, Floats, Ints, SimulatedTraffic, caught, first_look, traffic
from releases.judge.rules import JudgeRules

RATES = (0.5, 2.0, 20.0)


def flagger(seen: SimulatedTraffic) -> Ints:
    """Success >= 99 % per minute of the canary alone; five failed checks roll back; no values fails."""
    good = seen.candidate_bad <= 0.01 * seen.candidate
    failed = ~(good & (seen.candidate > 0))
    return first_look(np.cumsum(failed, axis=1) >= 5)


def argo(seen: SimulatedTraffic, *, success: float, failure_limit: int) -> Ints:
    """Success of the canary over 5 minutes, every 5 minutes; more failures than the limit roll back."""
    candidate = np.cumsum(seen.candidate, axis=1)[:, 4::5]
    bad = np.cumsum(seen.candidate_bad, axis=1)[:, 4::5]
    requests = np.diff(candidate, axis=1, prepend=0)
    failed = np.diff(bad, axis=1, prepend=0) > (1 - success) * requests
    first = first_look(np.cumsum(failed, axis=1) > failure_limit)
    return np.where(first == NEVER, NEVER, 5 * np.minimum(first, 1000))


def kayenta(seen: SimulatedTraffic) -> Ints:
    """Mann-Whitney on the error shares of minutes at 98 %, every ten minutes: the lower bound of the shift is
    above a quarter of the baseline's mean. With fewer than 50 minutes it says nothing."""
    shares = [
        bad / np.maximum(requests, 1)
        for bad, requests in ((seen.candidate_bad, seen.candidate), (seen.stable_bad, seen.stable))
    ]
    runs, looks = seen.shape
    alarms = np.zeros((runs, looks), dtype=bool)
    for minutes in range(50, looks + 1, 10):
        ours, theirs = (part[:, :minutes] for part in shares)
        shifts = np.sort((ours[:, :, None] - theirs[:, None, :]).reshape(runs, -1), axis=1)
        rank = minutes * minutes / 2 - 2.326 * np.sqrt(minutes * minutes * (2 * minutes + 1) / 12)
        low = shifts[:, max(int(rank), 0)]
        alarms[:, minutes - 1] = low > np.maximum(0.25 * theirs.mean(axis=1), 1e-12)
    return first_look(alarms)


def z_test(seen: SimulatedTraffic) -> Ints:
    """Pooled two-proportion test on everything so far, one-sided at 5 %, looked at every minute."""
    a, b = np.cumsum(seen.candidate, axis=1), np.cumsum(seen.stable, axis=1)
    k, j = np.cumsum(seen.candidate_bad, axis=1), np.cumsum(seen.stable_bad, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = (k + j) / (a + b)
        z = (k / a - j / b) / np.sqrt(pooled * (1 - pooled) * (1 / a + 1 / b))
    return first_look(np.nan_to_num(z) > 1.645)


def e_process(seen: SimulatedTraffic) -> Ints:
    """Look at one indicator with alpha 0.05 and all capital bet at once: the mixture of the paper."""
    return first_look(log_reject(seen, tolerated=1.0, reserve=0.0) >= np.log(20))


def shipped(seen: SimulatedTraffic) -> Ints:
    """The errors of `JudgeRules()`: half of alpha, a reserve for late defects, nothing below 0.1 %."""
    rules = JudgeRules()
    guilty = log_reject(seen, tolerated=rules.errors.roll_back_above_ratio) >= rules.log_reject_limit
    share = np.cumsum(seen.candidate_bad, axis=1) / np.maximum(np.cumsum(seen.candidate, axis=1), 1)
    crossed = np.logical_or.accumulate(guilty, axis=1)
    return first_look(crossed & (share >= rules.errors.roll_back_min_percent / 100))


RULES: dict[str, Callable[[SimulatedTraffic], Ints]] = {
    "Flagger style, >= 99 %, threshold 5": flagger,
    "Argo style, >= 99 %, limit 0, 5 min": lambda seen: argo(seen, success=0.99, failure_limit=0),
    "Argo style, >= 95 %, limit 3, 5 min": lambda seen: argo(seen, success=0.95, failure_limit=3),
    "z-test looked at each minute": z_test,
    "rate-ratio e-process, alpha 0.05": e_process,
    "Slipway as shipped (errors)": shipped,
}


def compare_rules(rng: np.random.Generator, runs: int) -> None:
    outage = np.full(60, 0.005)
    outage[20:30] = 0.03
    cases: dict[str, tuple[Floats | float, Floats | float]] = {
        "false roll-backs": (0.005, 0.005),
        "catches 0.5 -> 2 %": (0.02, 0.005),
        "blames shared 3 % outage": (outage, outage),
    }
    seen = {
        (case, rate): traffic(
            rng,
            runs=runs,
            requests_per_second=rate,
            candidate_share=RAMP,
            candidate_bad=bad,
            stable_bad=stable_bad,
        )
        for case, (bad, stable_bad) in cases.items()
        for rate in RATES
    }
    print(f"60 min, 5 -> 50 %, base errors 0.5 %, {runs:,} runs, at 0.5 / 2 / 20 requests per second")
    print(f"{'rule':37}{'false roll-back, %':>22}{'catches 0.5 -> 2 %':>46}{'3 % outage blamed, %':>24}")
    for name, rule in RULES.items():
        columns = []
        for case in cases:
            cells = []
            for rate in RATES:
                looks = rule(seen[case, rate])
                cell = f"{caught(looks):.1f}"
                if case.startswith("catches"):
                    when = f" @{np.median(looks[looks < NEVER]):.0f} min" if caught(looks) else ""
                    cell = f"{caught(looks):.0f} %{when}"
                cells.append(cell)
            columns.append(" / ".join(cells))
        print(f"{name:37}{columns[0]:>22}{columns[1]:>46}{columns[2]:>24}")
