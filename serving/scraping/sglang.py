"""SGLang's `/metrics`, which it has with `--enable-metrics` (0.4 to 0.5).

Names as in its docs/references/production_metrics.md: https://docs.sglang.ai/references/production_metrics.html
Newer versions have `inter_token_latency_seconds` in the place of `time_per_output_token_seconds`, and count
`num_requests_total`; of older ones the ends of requests are those whose whole latency was measured.
"""

from serving.protocol import Counters
from serving.scraping.exposition import Samples
from serving.scraping.reading import Reading

RUNNING = "sglang:num_running_reqs"


def read(samples: Samples) -> Reading | None:
    """None: these are not its metrics."""
    if RUNNING not in samples:
        return None
    return Reading(
        running=round(samples.total(RUNNING)),
        waiting=round(samples.total("sglang:num_queue_reqs")),
        counters=Counters(
            requests=round(
                samples.total("sglang:num_requests_total", "sglang:e2e_request_latency_seconds_count")
            ),
            # Aborted ones are the client's wish as often as a fault: they are not called errors.
            prompt_tokens=round(samples.total("sglang:prompt_tokens_total")),
            completion_tokens=round(samples.total("sglang:generation_tokens_total")),
        ),
        ttft=samples.histogram("sglang:time_to_first_token_seconds"),
        tpot=samples.histogram("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        started_at=samples.total("process_start_time_seconds") or None,
    )
