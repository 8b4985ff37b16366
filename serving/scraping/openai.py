"""Metrics of any other server that speaks OpenAI's API: by names that its service gives, or by those that
OpenTelemetry has for servers of generative AI.

Names and labels as in its semantic conventions, written as Prometheus' exporters do (unit at the end):
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/
They tell the time of requests that have ended, not how many run: how busy the server is follows from that.
"""

import re
from collections.abc import Mapping

from serving.protocol import Counters
from serving.relay_protocol import METRICS
from serving.scraping.exposition import Histogram, Samples
from serving.scraping.reading import Reading

DURATION = "gen_ai_server_request_duration_seconds"
TTFT = "gen_ai_server_time_to_first_token_seconds"
TPOT = "gen_ai_server_time_per_output_token_seconds"
TOKENS = "gen_ai_client_token_usage"
USUAL: Mapping[str, str] = {
    "requests": f"{DURATION}_count",
    "worked_seconds": f"{DURATION}_sum",
    "prompt_tokens": f'{TOKENS}_sum{{gen_ai_token_type="input"}}',
    "completion_tokens": f'{TOKENS}_sum{{gen_ai_token_type="output"}}',
    "ttft": TTFT,
    "tpot": TPOT,
}
"""By what it tells (`relay_protocol.METRICS`)."""
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\\]|\\\\.)*)"')


def read(samples: Samples, names: Mapping[str, str]) -> Reading | None:
    """`names`: series or histograms by what they tell; none: those of OpenTelemetry. None: there are no
    metrics, or not the one that says how many requests run, which a server always has. Others are there
    from their first value on."""
    told = names or USUAL
    running = _present(samples, told["running"]) if "running" in told else True
    if not samples or not running:
        return None
    number = {what: _total(samples, told[what]) for what in METRICS if what in told}
    errors = number.get("errors", 0.0) if names else _otel_errors(samples)
    return Reading(
        running=round(number["running"]) if "running" in number else None,
        worked_seconds=number.get("worked_seconds", 0.0) if "running" not in number else None,
        waiting=round(number.get("waiting", 0.0)),
        counters=Counters(
            requests=round(number.get("requests", 0.0)),
            errors=round(errors),
            refused=round(number.get("refused", 0.0)),
            prompt_tokens=round(number.get("prompt_tokens", 0.0)),
            completion_tokens=round(number.get("completion_tokens", 0.0)),
        ),
        ttft=_histogram(samples, told.get("ttft", "")),
        tpot=_histogram(samples, told.get("tpot", "")),
        started_at=samples.total("process_start_time_seconds") or None,
    )


def _otel_errors(samples: Samples) -> float:
    """A request that failed has the label `error_type`."""
    count = f"{DURATION}_count"
    return sum(one.value for one in samples.of(count) if one.labels.get("error_type"))


def _split(name: str) -> tuple[str, dict[str, str]]:
    """`requests_total{code="200"}`"""
    bare, _, labels = name.partition("{")
    return bare, dict(_LABEL.findall(labels))


def _present(samples: Samples, name: str) -> bool:
    return _split(name)[0] in samples


def _total(samples: Samples, name: str) -> float:
    bare, labels = _split(name)
    return samples.total(bare, **labels)


def _histogram(samples: Samples, name: str) -> Histogram | None:
    return samples.histogram(_split(name)[0]) if name else None
