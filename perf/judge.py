"""How the judge does beside the rules that other tools use: `python perf/judge.py [--runs 2000]`.

Simulates releases of 60 minutes whose candidate share rises evenly from 5 to 50 %, one look a minute, and
prints how often each rule rolls back an equal candidate, catches a worse one, and blames it for an outage
that both sides share; then how many candidate requests certify an equal candidate, how late a defect is
caught that starts after hours of good behaviour, and what a look costs. The e-processes are vectorised here
and compared with `releases.judge` first.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from releases.judge import (
    Decision,
    Evidence,
    Increment,
    IndicatorRules,
    JudgeRules,
    Sides,
    Tally,
    eprocess,
    verdict,
)
from releases.plans import CANARY_QUICK, Approval, Hold, Judge, Weight

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RAMP = np.linspace(0.05, 0.50, 60)
RATES = (0.5, 2.0, 20.0)
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Traffic:
    """Counts per run (rows) and look (columns)."""

    candidate: Ints
    candidate_bad: Ints
    stable: Ints
    stable_bad: Ints

    @property
    def shape(self) -> tuple[int, int]:
        return self.candidate.shape[0], self.candidate.shape[1]


def traffic(
    rng: np.random.Generator,
    *,
    runs: int,
    requests_per_second: float,
    candidate_share: Floats,
    candidate_bad: Floats | float,
    stable_bad: Floats | float,
    look_seconds: float = 60.0,
) -> Traffic:
    """Poisson arrivals, dealt out at random; bad probabilities per look."""
    arrived = rng.poisson(requests_per_second * look_seconds, (runs, candidate_share.size))
    candidate = rng.binomial(arrived, candidate_share)
    stable = arrived - candidate
    return Traffic(
        candidate, rng.binomial(candidate, candidate_bad), stable, rng.binomial(stable, stable_bad)
    )


def log_reject(seen: Traffic, *, tolerated: float, reserve: float = eprocess.RESERVE) -> Floats:
    """`IndicatorEvidence.log_reject` at every look; `reserve=0` is the plain mixture of arXiv 2205.14762."""
    runs, looks = seen.shape
    ratios = np.array(eprocess.reject_ratios(tolerated))
    bets = np.full((runs, ratios.size), np.log((1 - reserve) / ratios.size))
    bad = np.zeros(runs)
    path = np.empty((runs, looks))
    for look in range(looks):
        bets += _settlement(seen, look, null_ratio=tolerated, ratios=ratios)
        both = (seen.candidate[:, look] > 0) & (seen.stable[:, look] > 0)
        bad_after = bad + np.where(both, seen.candidate_bad[:, look] + seen.stable_bad[:, look], 0)
        held = reserve * eprocess.RESERVE_SPAN / (eprocess.RESERVE_SPAN + bad_after)
        released = held * (bad_after - bad) / (eprocess.RESERVE_SPAN + bad) / ratios.size
        with np.errstate(divide="ignore"):
            bets = np.logaddexp(bets, np.log(released)[:, None])
            path[:, look] = np.logaddexp(_log_sum(bets), np.log(held))
        bad = bad_after
    return path


def log_accept(seen: Traffic, *, limit: float) -> Floats:
    """`IndicatorEvidence.log_accept` after every look, for the ratio claim alone and no outage."""
    ratios = np.array(eprocess.accept_ratios(limit))
    settled = np.stack(
        [_settlement(seen, look, null_ratio=limit, ratios=ratios) for look in range(seen.shape[1])], axis=1
    )
    return np.asarray(_log_sum(np.cumsum(settled, axis=1) - np.log(ratios.size)))


def _settlement(seen: Traffic, look: int, *, null_ratio: float, ratios: Floats) -> Floats:
    a = seen.candidate[:, look, None].astype(float)
    b = seen.stable[:, look, None].astype(float)
    both = (a > 0) & (b > 0)
    log_d = -np.log1p((ratios - null_ratio) * a / np.where(both, null_ratio * a + b, 1.0))
    log_c = np.log(ratios / null_ratio) + log_d
    settled = seen.candidate_bad[:, look, None] * log_c + seen.stable_bad[:, look, None] * log_d
    return np.where(both, settled, 0.0)


def _log_sum(logs: Floats) -> Floats:
    return np.asarray(np.logaddexp.reduce(logs, axis=-1))


def first_look(alarms: NDArray[np.bool_]) -> Ints:
    """The look, counted from 1, of each run's first alarm; NEVER without one."""
    return np.where(alarms.any(axis=1), alarms.argmax(axis=1) + 1, NEVER)


def flagger(seen: Traffic) -> Ints:
    """Success >= 99 % per minute of the canary alone; five failed checks roll back; no values fails."""
    good = seen.candidate_bad <= 0.01 * seen.candidate
    failed = ~(good & (seen.candidate > 0))
    return first_look(np.cumsum(failed, axis=1) >= 5)


def argo(seen: Traffic, *, success: float, failure_limit: int) -> Ints:
    """Success of the canary over 5 minutes, every 5 minutes; more failures than the limit roll back."""
    candidate = np.cumsum(seen.candidate, axis=1)[:, 4::5]
    bad = np.cumsum(seen.candidate_bad, axis=1)[:, 4::5]
    requests = np.diff(candidate, axis=1, prepend=0)
    failed = np.diff(bad, axis=1, prepend=0) > (1 - success) * requests
    first = first_look(np.cumsum(failed, axis=1) > failure_limit)
    return np.where(first == NEVER, NEVER, 5 * np.minimum(first, 1000))


def z_test(seen: Traffic) -> Ints:
    """Pooled two-proportion test on everything so far, one-sided at 5 %, looked at every minute."""
    a, b = np.cumsum(seen.candidate, axis=1), np.cumsum(seen.stable, axis=1)
    k, j = np.cumsum(seen.candidate_bad, axis=1), np.cumsum(seen.stable_bad, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = (k + j) / (a + b)
        z = (k / a - j / b) / np.sqrt(pooled * (1 - pooled) * (1 / a + 1 / b))
    return first_look(np.nan_to_num(z) > 1.645)


def e_process(seen: Traffic) -> Ints:
    """One indicator, alpha 0.05, all capital bet at once: the mixture of the paper."""
    return first_look(log_reject(seen, tolerated=1.0, reserve=0.0) >= np.log(20))


def shipped(seen: Traffic) -> Ints:
    """The errors of `JudgeRules()`: half of alpha, a reserve for late defects, nothing below 0.1 %."""
    rules = JudgeRules()
    guilty = log_reject(seen, tolerated=rules.errors.roll_back_above_ratio) >= rules.log_reject_limit
    share = np.cumsum(seen.candidate_bad, axis=1) / np.maximum(np.cumsum(seen.candidate, axis=1), 1)
    crossed = np.logical_or.accumulate(guilty, axis=1)
    return first_look(crossed & (share >= rules.errors.roll_back_min_percent / 100))


RULES: dict[str, Callable[[Traffic], Ints]] = {
    "Flagger style, >= 99 %, threshold 5": flagger,
    "Argo style, >= 99 %, limit 0, 5 min": lambda seen: argo(seen, success=0.99, failure_limit=0),
    "Argo style, >= 95 %, limit 3, 5 min": lambda seen: argo(seen, success=0.95, failure_limit=3),
    "z-test looked at each minute": z_test,
    "rate-ratio e-process, alpha 0.05": e_process,
    "Slipway as shipped (errors)": shipped,
}


def caught(looks: Ints) -> float:
    """Percentage of the runs that were rolled back."""
    return 100 * float(np.mean(looks < NEVER))


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


def requests_to_certify(
    rng: np.random.Generator, *, runs: int, base: float, limit: float, share: float = 0.05
) -> tuple[float, float]:
    """Median and 90 % quantile of the candidate requests that certify an equal candidate at 10 %."""
    step = 10
    seen = traffic(
        rng,
        runs=runs,
        requests_per_second=step / share,
        candidate_share=np.full(1000 if limit < 2 else 400, share),
        candidate_bad=base,
        stable_bad=base,
        look_seconds=1.0,
    )
    first = first_look(log_accept(seen, limit=limit) >= np.log(10))
    used = np.where(first == NEVER, np.inf, first * float(step))
    return float(np.quantile(used, 0.5)), float(np.quantile(used, 0.9))


def compare_certificates(rng: np.random.Generator, runs: int) -> None:
    print(
        "\nCandidate requests that certify an equal candidate at 10 %, weight 5 %: median (90 % of the runs)"
    )
    print(f"{'':14}" + "".join(f"{f'ratio < {limit:g}':>18}" for limit in (1.5, 2.0, 3.0)))
    for base in (0.02, 0.05):
        cells = []
        for limit in (1.5, 2.0, 3.0):
            median, most = requests_to_certify(rng, runs=runs // 4, base=base, limit=limit)
            cells.append(f"{median:,.0f} ({most:,.0f})")
        print(f"{f'base {base:.0%}':14}" + "".join(f"{cell:>18}" for cell in cells))


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


def play_quick_plan(
    rng: np.random.Generator, *, requests_per_second: float, errors: float, slow: float, look_seconds: int = 2
) -> tuple[int | None, int | None]:
    """Seconds of candidate traffic until `canary-quick` rolls back, and until it certifies.

    None for what has not happened after a minute of waiting for the approval.
    """
    plan, rules = CANARY_QUICK, CANARY_QUICK.judge
    evidence = Evidence.start(rules).with_slow_threshold(100.0)
    share, at, certified = 0.0, 0, None
    for step in plan.steps:
        match step:
            case Weight():
                share = step.percent / 100
                continue
            case Hold():
                seconds = step.seconds
            case Judge():
                seconds = step.at_most_seconds
            case Approval():
                seconds = 60
            case _:
                continue
        for _ in range(seconds // look_seconds):
            arrived = rng.poisson(requests_per_second * look_seconds)
            candidate = int(rng.binomial(arrived, share))
            stable = int(arrived) - candidate
            seen = Increment(
                float(look_seconds),
                {
                    "errors": Sides(Tally(candidate, int(rng.binomial(candidate, errors))), Tally(stable)),
                    "slow": Sides(
                        Tally(candidate, int(rng.binomial(candidate, slow))),
                        Tally(stable, int(rng.binomial(stable, 0.05))),
                    ),
                },
            )
            evidence = evidence.after(seen, rules)
            at += look_seconds
            decision = verdict(evidence, rules).decision
            if decision == Decision.ROLL_BACK:
                return at, certified
            if decision == Decision.PROMOTE and certified is None:
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


def disagreement(rng: np.random.Generator, runs: int = 5) -> float:
    """Largest difference between the vectorised e-values and the judge's own, in logarithms."""
    rules = JudgeRules(
        errors=IndicatorRules(roll_back_above_ratio=1.0, promote_below_ratio=2.0),
        slow=None,
    )
    seen = traffic(
        rng, runs=runs, requests_per_second=2, candidate_share=RAMP, candidate_bad=0.02, stable_bad=0.01
    )
    rejects, accepts = log_reject(seen, tolerated=1.0), log_accept(seen, limit=2.0)
    worst = 0.0
    for run in range(runs):
        evidence = Evidence.start(rules)
        for look in range(seen.shape[1]):
            sides = Sides(
                Tally(int(seen.candidate[run, look]), int(seen.candidate_bad[run, look])),
                Tally(int(seen.stable[run, look]), int(seen.stable_bad[run, look])),
            )
            evidence = evidence.after(Increment(60.0, {"errors": sides}), rules)
            errors = evidence.indicators["errors"]
            worst = max(
                worst,
                abs(errors.log_reject - rejects[run, look]),
                abs(errors.log_accept - accepts[run, look]),
            )
    return float(worst)


def cost_of_a_look(looks: int = 2000) -> None:
    rules = JudgeRules()
    evidence = Evidence.start(rules).with_slow_threshold(500.0)
    sides = Sides(Tally(25, 1), Tally(75, 4))
    increment = Increment(5.0, {"errors": sides, "slow": sides})
    start = time.process_time()
    for _ in range(looks):
        evidence = evidence.after(increment, rules)
        verdict(evidence, rules)
    microseconds = (time.process_time() - start) / looks * 1e6
    size = len(json.dumps(evidence.to_dict()))
    print(
        f"\nOne look, two indicators: {microseconds:.0f} us with its verdict; evidence {size:,} bytes of JSON"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    apart = disagreement(rng)
    if apart > 1e-9:
        print(f"the simulation and the judge disagree by {apart:g}", file=sys.stderr)
        return 1
    compare_rules(rng, options.runs)
    compare_certificates(rng, options.runs)
    compare_late_defects(rng, max(options.runs // 10, 50))
    show_quick_plan(rng, max(options.runs // 40, 20))
    cost_of_a_look()
    return 0


if __name__ == "__main__":
    sys.exit(main())
