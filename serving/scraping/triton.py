"""Triton Inference Server's metrics, on a port of their own, 8002 (23.04 and later).

Names as in its docs/user_guide/metrics.md:
https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html
It tells requests that wait for a model, not those that are worked on: how busy it is follows from the time
that its models have computed. It knows requests, not tokens. A server may have several models: all are its
work.
"""

from serving.protocol import Counters
from serving.scraping.exposition import Samples
from serving.scraping.reading import Reading

SUCCESS = "nv_inference_request_success"
_COMPUTED = (
    "nv_inference_compute_input_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
)


def read(samples: Samples) -> Reading | None:
    """None: these are not its metrics."""
    if SUCCESS not in samples:
        return None
    failed = samples.total("nv_inference_request_failure")
    rejected = samples.total("nv_inference_request_failure", reason="REJECTED")
    canceled = samples.total("nv_inference_request_failure", reason="CANCELED")
    return Reading(
        waiting=round(samples.total("nv_inference_pending_request_count")),
        worked_seconds=sum(samples.total(name) for name in _COMPUTED) / 1e6,
        counters=Counters(
            requests=round(samples.total(SUCCESS) + failed),
            errors=round(failed - rejected - canceled),
            refused=round(rejected),
        ),
    )
