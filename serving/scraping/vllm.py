"""vLLM's `/metrics`, engine V1 (0.8 to 0.12).

Names as in its docs/design/metrics.md and docs/usage/metrics.md: https://docs.vllm.ai/en/latest/usage/metrics.html
Several engines of a server (data parallel) are series of their own, by the label `engine`. What was
`time_per_output_token_seconds` has been `inter_token_latency_seconds` since 0.11.
"""

from serving.protocol import Counters
from serving.scraping.exposition import Samples
from serving.scraping.reading import Reading

RUNNING = "vllm:num_requests_running"


def read(samples: Samples) -> Reading | None:
    """None: these are not its metrics."""
    if RUNNING not in samples:
        return None
    return Reading(
        running=round(samples.total(RUNNING)),
        waiting=round(samples.total("vllm:num_requests_waiting")),
        counters=Counters(
            # Despite its name it counts every end, by its reason.
            requests=round(samples.total("vllm:request_success_total")),
            errors=round(samples.total("vllm:request_success_total", finished_reason="error")),
            prompt_tokens=round(samples.total("vllm:prompt_tokens_total")),
            completion_tokens=round(samples.total("vllm:generation_tokens_total")),
        ),
        ttft=samples.histogram("vllm:time_to_first_token_seconds"),
        tpot=samples.histogram("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        started_at=samples.total("process_start_time_seconds") or None,
    )
