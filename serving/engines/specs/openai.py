"""Any other server that speaks OpenAI's API, by an image of the team's.

Its metrics have the names that its service gives, or those that OpenTelemetry has for servers of generative
AI (opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics), written as Prometheus' exporters do, with the
unit at the end. They tell the time of requests that have ended, not how many run: how busy the server is
follows from that.
"""

from serving.engines.spec import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, EngineSpec, MetricNames, PodServer

_DURATION, _TOKENS = "gen_ai_server_request_duration_seconds", "gen_ai_client_token_usage"

SPEC = EngineSpec(
    name="openai",
    apis=frozenset({CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES}),
    pod_server=PodServer(),
    metrics=MetricNames(
        present=(),
        requests=(f"{_DURATION}_count",),
        # A request that failed has the label.
        errors=(f"{_DURATION}_count{{error_type}}",),
        worked_seconds=(f"{_DURATION}_sum",),
        prompt_tokens=(f'{_TOKENS}_sum{{gen_ai_token_type="input"}}',),
        completion_tokens=(f'{_TOKENS}_sum{{gen_ai_token_type="output"}}',),
        ttft=("gen_ai_server_time_to_first_token_seconds",),
        tpot=("gen_ai_server_time_per_output_token_seconds",),
    ),
)
