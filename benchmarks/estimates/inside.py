"""What runs in AIConfigurator's environment: one order for each line on standard input, one answer a line.

It has nothing of ours on its path. An order is `{key, model, system, engine, kv, gpus, stages,
expert_parallel, slots, input, output, ttft_ms, tpot_ms}`, an answer `{key, rate}` or `{key, refused}`.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from aiconfigurator.cli.api import cli_estimate  # type: ignore[import-not-found]  # of its environment

NO_MEMORY = "OOM"


def rate_within(order: Mapping[str, Any], models: str) -> float:
    """Return the requests/s of the largest batch that fits and keeps the targets; 0: none does."""
    batch = order["slots"]
    while batch >= 1:
        try:
            found = cli_estimate(
                f"{models}/{order['model']}",
                order["system"],
                backend_name=order["engine"],
                isl=order["input"],
                osl=order["output"],
                batch_size=batch,
                tp_size=order["gpus"],
                pp_size=order["stages"],
                moe_tp_size=1 if order["expert_parallel"] else order["gpus"],
                moe_ep_size=order["gpus"] if order["expert_parallel"] else 1,
                kvcache_quant_mode=order["kv"],
            )
        except RuntimeError as error:
            if not str(error).startswith(NO_MEMORY):
                raise
        else:
            is_fast = all(
                limit is None or value <= limit
                for value, limit in ((found.ttft, order["ttft_ms"]), (found.tpot, order["tpot_ms"]))
            )
            if is_fast and not found.kv_cache_warning:
                return float(found.seq_per_second)
        batch //= 2
    return 0.0


def main(models: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        order = json.loads(line)
        try:
            told: dict[str, Any] = {"rate": rate_within(order, models)}
        except Exception as error:  # whatever it does not know of: the next one may be known
            told = {"refused": " ".join(str(error).split())[:200] or type(error).__name__}
        answers.write(json.dumps({"key": order["key"], **told}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
