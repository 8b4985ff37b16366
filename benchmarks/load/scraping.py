"""What the load generator reads of a server's /metrics: the counters of its prefix cache."""

import re
import urllib.request
from collections.abc import Sequence

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^}]*\})? ([-+0-9.eE]+|NaN)", re.M)
QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")


def prefix_cache(addresses: Sequence[str]) -> tuple[float, float] | None:
    """Tokens that were looked up and found, of all servers; None where one does not count them."""
    looked_up = found = 0.0
    for address in addresses:
        try:
            with urllib.request.urlopen(f"{address}/metrics", timeout=5) as answer:  # noqa: S310  (http alone)
                samples = _SAMPLE.findall(answer.read().decode("utf-8", "replace"))
        except (OSError, ValueError):
            return None
        totals = {name: 0.0 for name, _ in samples}
        for name, value in samples:
            totals[name] += float(value)
        queries = next((totals[name] for name in QUERIES if name in totals), None)
        hits = next((totals[name] for name in HITS if name in totals), None)
        if queries is None or hits is None:
            return None
        looked_up, found = looked_up + queries, found + hits
    return looked_up, found


def hit_share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    if before is None or after is None or after[0] <= before[0]:
        return None
    return (after[1] - before[1]) / (after[0] - before[0])
