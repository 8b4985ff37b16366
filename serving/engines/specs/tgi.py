"""Text Generation Inference (2 and 3), by its maker's image.

Metrics: its docs/source/reference/metrics.md. It measures no time to the first token, its tokens are sums of
histograms, and a series is there from its first value on: a fresh server has few. By the label `err` of
failures: a request that is no good, or a full queue, is nobody's failure here.
"""

from serving.engines.spec import CHAT, COMPLETIONS, EngineSpec, MetricNames, PodServer

_FAILED = "tgi_request_failure"

SPEC = EngineSpec(
    name="tgi",
    apis=frozenset({CHAT, COMPLETIONS}),
    formats=("safetensors",),
    pod_server=PodServer(args=("--model-id=$(MODEL_DIR)", "--hostname=0.0.0.0", "--port=$(PORT)")),
    metrics=MetricNames(
        present=("tgi_queue_size", "tgi_batch_current_size", "tgi_request_count"),
        running=("tgi_batch_current_size",),
        waiting=("tgi_queue_size",),
        requests=(f"tgi_request_success + {_FAILED}",),  # untranslated
        errors=(f'{_FAILED}{{err="generation"}} + {_FAILED}{{err="incomplete"}}',),
        refused=(f'{_FAILED}{{err="overloaded"}}',),
        prompt_tokens=("tgi_request_input_length_sum",),
        completion_tokens=("tgi_request_generated_tokens_sum",),
        tpot=("tgi_request_mean_time_per_token_duration",),
    ),
)
