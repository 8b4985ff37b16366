"""Text Generation Inference's `/metrics` (2 and 3).

Names as in its docs/source/reference/metrics.md:
https://huggingface.co/docs/text-generation-inference/reference/metrics
It measures no time to the first token. Its tokens are sums of histograms.
"""

from serving.protocol import Counters
from serving.scraping.exposition import Samples
from serving.scraping.reading import Reading


def read(samples: Samples) -> Reading | None:
    """None: these are not its metrics. A series is there from its first value on: a fresh server has few."""
    if not any(name in samples for name in ("tgi_queue_size", "tgi_batch_current_size", "tgi_request_count")):
        return None
    failed = samples.total("tgi_request_failure")
    return Reading(
        running=round(samples.total("tgi_batch_current_size")),
        waiting=round(samples.total("tgi_queue_size")),
        counters=Counters(
            requests=round(samples.total("tgi_request_success") + failed),
            # By the label `err`: a request that is no good, or a full queue, is nobody's failure here.
            errors=round(
                samples.total("tgi_request_failure", err="generation")
                + samples.total("tgi_request_failure", err="incomplete")
            ),
            refused=round(samples.total("tgi_request_failure", err="overloaded")),
            prompt_tokens=round(samples.total("tgi_request_input_length_sum")),
            completion_tokens=round(samples.total("tgi_request_generated_tokens_sum")),
        ),
        tpot=samples.histogram("tgi_request_mean_time_per_token_duration"),
    )
