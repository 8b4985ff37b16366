"""The whole judge over the grid of load, risk ratio and trouble, beside the rules of other tools."""

from collections.abc import Callable

import numpy as np

from perf.judge.eprocesses import log_reject
from perf.judge.rules import argo, flagger, kayenta
from perf.judge.sessions import PER_SESSION
from perf.judge.traffic import NEVER, RAMP, Floats, Ints, SimulatedTraffic, caught, first_look, traffic
from releases.judge.rules import JudgeRules

RPS = (0.5, 2.0, 20.0, 200.0)
RATIOS = (1.0, 1.2, 1.5, 2.0, 4.0, 10.0)
BASE, SLOW = 0.005, 0.05
"""Shares of stable's answers that are errors, and that are slow."""
MOST_BAD = 0.5
LOST_SHARE = 0.2

Seen = tuple[SimulatedTraffic, SimulatedTraffic]
"""Errors and slow answers of the same requests."""


def independent(rng: np.random.Generator, runs: int, rps: float, ratio: float) -> Seen:
    return _dealt(rng, runs, rps, ratio, np.full(RAMP.size, BASE))


def outage(rng: np.random.Generator, runs: int, rps: float, ratio: float) -> Seen:
    """Ten minutes in which a third of all answers are errors, on both sides alike."""
    base = np.full(RAMP.size, BASE)
    base[20:30] = 0.3
    return _dealt(rng, runs, rps, ratio, base)


def tide(rng: np.random.Generator, runs: int, rps: float, ratio: float) -> Seen:
    """Load between a fifth and nine fifths of the mean within the hour; errors follow it."""
    wave = 1 + 0.8 * np.sin(np.linspace(0, 2 * np.pi, RAMP.size))
    return _dealt(rng, runs, rps * wave, ratio, BASE * wave)


def lag(rng: np.random.Generator, runs: int, rps: float, ratio: float) -> Seen:
    """The counts of stable are those of the minute before, at another weight."""
    return _each(independent(rng, runs, rps, ratio), _lagged)


def lost_scrapes(rng: np.random.Generator, runs: int, rps: float, ratio: float) -> Seen:
    """Traffic of which every fifth reading fails; the next has its requests, too, at two weights or more."""
    lost = rng.random((runs, RAMP.size)) < LOST_SHARE
    return _each(independent(rng, runs, rps, ratio), lambda seen: _merged(seen, lost))


def sticky(rng: np.random.Generator, runs: int, rps: float, ratio: float) -> Seen:
    """Sessions that stay on a side, all of whose requests are bad, or none."""

    def of(base: float, ratio: float) -> SimulatedTraffic:
        one = traffic(
            rng,
            runs=runs,
            requests_per_second=rps / PER_SESSION,
            candidate_share=RAMP,
            candidate_bad=min(base * ratio, MOST_BAD),
            stable_bad=base,
        )
        parts = (one.candidate, one.candidate_bad, one.stable, one.stable_bad)
        return SimulatedTraffic(*(PER_SESSION * part for part in parts))

    return of(BASE, ratio), of(SLOW, 1.0)


CONDITIONS: dict[str, Callable[[np.random.Generator, int, float, float], Seen]] = {
    "independent": independent,
    "sessions": sticky,
    "outage": outage,
    "tide": tide,
    "lag": lag,
    "lost scrapes": lost_scrapes,
}


def judge(seen: Seen, *, per_session: int = 1) -> Ints:
    """`JudgeRules()` over errors and slow answers: the mean of the e-values against the limit."""
    rules = JudgeRules()
    assert rules.slow is not None
    errors, slow = seen
    of_errors = log_reject(errors, tolerated=rules.errors.roll_back_above_ratio, per_session=per_session)
    of_slow = log_reject(slow, tolerated=rules.slow.roll_back_above_ratio, per_session=per_session)
    share = np.cumsum(errors.candidate_bad, axis=1) / np.maximum(np.cumsum(errors.candidate, axis=1), 1)
    rare = share < rules.errors.roll_back_min_percent / 100
    mean = np.logaddexp(np.where(rare, -np.inf, of_errors), of_slow) - np.log(2)
    return first_look(mean >= rules.log_mean_limit)


BESIDE: dict[str, Callable[[SimulatedTraffic], Ints]] = {
    "Flagger": flagger,
    "Argo": lambda seen: argo(seen, success=0.99, failure_limit=0),
    "Kayenta": kayenta,
}


def compare_grid(
    seed: int, runs: int, *, rps: tuple[float, ...] = RPS, conditions: tuple[str, ...] = tuple(CONDITIONS)
) -> list[str]:
    """Print the grid; return the cells in which the judge breaks a promise."""
    limit = JudgeRules().false_roll_back_percent
    # Three standard errors of a share that is just at the limit.
    most = limit + 300 * np.sqrt(limit / 100 * (1 - limit / 100) / runs)
    broken = []
    print(f"Rolled back within 60 min, 5 -> 50 %, base errors 0.5 %, {runs:,} runs a cell (median minute)")
    print(
        f"{'condition':14}{'rps':>6}{'ratio':>7}{'Slipway':>16}" + "".join(f"{name:>10}" for name in BESIDE)
    )
    for condition in conditions:
        for rate in rps:
            for ratio in RATIOS:
                # A cell has the same draws whichever others are asked for.
                cell = (list(CONDITIONS).index(condition), int(10 * rate), int(10 * ratio))
                rng = np.random.default_rng((seed, *cell))
                seen = CONDITIONS[condition](rng, runs, rate, ratio)
                looks = judge(seen, per_session=PER_SESSION if condition == "sessions" else 1)
                share = caught(looks)
                when = f" @{np.median(looks[looks < NEVER]):.0f}" if share else ""
                others = "".join(f"{caught(rule(seen[0])):>10.1f}" for rule in BESIDE.values())
                print(f"{condition:14}{rate:>6g}{ratio:>7g}{f'{share:.1f}{when}':>16}{others}", flush=True)
                if ratio == 1.0 and share > most:
                    broken.append(f"{condition}, {rate:g} rps: {share:.1f} % of equal candidates rolled back")
                if (condition, rate, ratio) == ("independent", 2.0, 4.0) and share < 95:
                    broken.append(f"2 rps, ratio 4: {share:.1f} % caught within 60 min")
    return broken


def _dealt(rng: np.random.Generator, runs: int, rps: Floats | float, ratio: float, base: Floats) -> Seen:
    arrived = rng.poisson(rps * np.full(RAMP.size, 60.0), (runs, RAMP.size))
    candidate = rng.binomial(arrived, RAMP)
    stable = arrived - candidate
    worse = np.minimum(base * ratio, np.maximum(base, MOST_BAD))
    errors = SimulatedTraffic(candidate, rng.binomial(candidate, worse), stable, rng.binomial(stable, base))
    slow = SimulatedTraffic(candidate, rng.binomial(candidate, SLOW), stable, rng.binomial(stable, SLOW))
    return errors, slow


def _each(seen: Seen, change: Callable[[SimulatedTraffic], SimulatedTraffic]) -> Seen:
    errors, slow = seen
    return change(errors), change(slow)


def _lagged(seen: SimulatedTraffic) -> SimulatedTraffic:
    late = [np.concatenate([np.zeros_like(part[:, :1]), part[:, :-1]], axis=1)
            for part in (seen.stable, seen.stable_bad)]  # fmt: skip
    return SimulatedTraffic(seen.candidate, seen.candidate_bad, *late)


def _merged(seen: SimulatedTraffic, lost: np.ndarray) -> SimulatedTraffic:
    parts = []
    for part in (seen.candidate, seen.candidate_bad, seen.stable, seen.stable_bad):
        held, found = np.zeros_like(part[:, 0]), np.empty_like(part)
        for look in range(part.shape[1]):
            held = held + part[:, look]
            found[:, look] = np.where(lost[:, look], 0, held)
            held = np.where(lost[:, look], held, 0)
        parts.append(found)
    return SimulatedTraffic(*parts)
