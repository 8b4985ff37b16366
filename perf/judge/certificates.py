"""How many requests certify an equal candidate."""

import numpy as np

from perf.judge.eprocesses import log_accept
from perf.judge.traffic import NEVER, first_look, traffic


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
