"""What a worker shows Prometheus. Names begin with `slipway_worker_`; times are seconds."""

from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest

from serving.desk import CLIENT_CLOSED_REQUEST, Desk, Progress, RequestOutcome
from serving.loop_metrics import CounterSeries, HistogramSeries, LoopCounter, LoopHistogram
from serving.protocol import ENGINES_WITH_ROUTES, LATENCY_BOUNDS_MS, TRUNCATED, WorkerState
from serving.worker_command import WorkerCommand

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
TTFT_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
TPOT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1)


class WorkerMetrics:
    """Reads the desk's gauges when scraped and counts the outcomes that it is told of."""

    def __init__(self, desk: Desk, command: WorkerCommand) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        Info("slipway_worker", "Who this worker is.", registry=registry).info(
            {
                "worker": command.name,
                "deployment": command.deployment,
                "service": command.service,
                "version": command.version_label,
                "engine": command.engine,
            }
        )
        self._requests = LoopCounter(
            "slipway_worker_requests",
            "Generation requests by route and status.",
            ["route", "code"],
            registry=registry,
        )
        self._seconds = LoopHistogram(
            "slipway_worker_request_seconds",
            "From the request to the end of its answer.",
            ["route"],
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )
        self._ttft = LoopHistogram(
            "slipway_worker_time_to_first_token_seconds",
            "From the request to its first token.",
            buckets=TTFT_BUCKETS,
            registry=registry,
        )
        self._tpot = LoopHistogram(
            "slipway_worker_time_per_output_token_seconds",
            "Mean time between the tokens of an answer.",
            buckets=TPOT_BUCKETS,
            registry=registry,
        )
        self._tokens = LoopCounter(
            "slipway_worker_tokens", "Tokens read and written.", ["direction"], registry=registry
        )
        self._broken = LoopCounter(
            "slipway_worker_broken_streams",
            "Streams that ended in an error after they had begun.",
            registry=registry,
        )
        self._traffic = LoopCounter(
            "slipway_worker_traffic",
            "Generation requests by who chose this version for them (the gateway or the client) and by what "
            "became of them: routed (arrived), ended, abandoned (the client left before an answer), errors "
            "(answered 500-599 or broken), broken (cut off midway).",
            ["chosen_by", "event"],
            registry=registry,
        )
        self.indicated = LoopCounter(
            "slipway_worker_indicator_requests",
            "Requests for which the gateway chose and in which an indicator was above 0.",
            ["name", "better"],
            registry=registry,
        )
        if command.engine not in ENGINES_WITH_ROUTES:
            self.indicated.labels(TRUNCATED, "lower")
        bounds = [bound / 1000 for bound in LATENCY_BOUNDS_MS]
        self._answer = LoopHistogram(
            "slipway_worker_answer_seconds",
            "From the request to the end of its answer: whole answers below 400 to requests for which the "
            "gateway chose.",
            buckets=bounds,
            registry=registry,
        )
        self._first_token = LoopHistogram(
            "slipway_worker_answer_first_token_seconds",
            "The same to the first token.",
            buckets=bounds,
            registry=registry,
        )
        self._timing = LoopHistogram(
            "slipway_worker_timing_seconds",
            "The same by what a release may be judged by: the whole answer by route, `ttft` and `tpot`.",
            ["of"],
            buckets=bounds,
            registry=registry,
        )
        for name, text, read in (
            ("busy", "Mean share of the slots at work over the last 10 s.", lambda: desk.busy),
            ("in_flight", "Requests that hold a slot.", lambda: desk.in_flight),
            ("queue_depth", "Requests that wait for a slot.", lambda: desk.queue_depth),
            ("slots", "Requests that can be worked on at the same time.", lambda: desk.slots),
            ("ready", "1 when the worker takes requests.", lambda: desk.state is WorkerState.READY),
        ):
            Gauge(f"slipway_worker_{name}", text, registry=registry).set_function(read)
        desk.observe(self._count)

        self._tokens_in, self._tokens_out = self._tokens.labels("in"), self._tokens.labels("out")
        self._arrived = cache(lambda chosen_by: self._traffic.labels(chosen_by, "routed"))
        self._counted = cache(self._counts_of)

    def arrived(self, progress: Progress) -> None:
        self._arrived(progress.chosen_by).inc()

    def _count(self, outcome: RequestOutcome) -> None:
        progress = outcome.progress
        counts, times = self._counted(outcome.route, outcome.code, outcome.broke_off, progress.chosen_by)
        for series in counts:
            series.inc()
        for timed in times:
            timed.observe(outcome.seconds)
        if progress.first_token_at is not None or progress.prompt_tokens:
            self._count_tokens(progress, is_judged=len(times) > 1)
        if progress.is_truncated and len(times) > 1:
            self.indicated.labels(TRUNCATED, "lower").inc()

    def _counts_of(
        self, route: str, code: int, broke_off: bool, chosen_by: str
    ) -> tuple[list[CounterSeries], list[HistogramSeries]]:
        """Return what counts one more request of this kind, and what its seconds. Looked up once for each
        kind: finding a series costs more than counting.
        """
        # What a gateway would have counted.
        events = {
            "ended": True,
            "abandoned": code == CLIENT_CLOSED_REQUEST,
            "errors": broke_off or code >= 500,
            "broken": broke_off,
        }
        counts = [
            self._traffic.labels(chosen_by, event) for event, has_happened in events.items() if has_happened
        ]
        counts.append(self._requests.labels(route, str(code)))
        if broke_off:
            counts.append(self._broken.labels())
        times = [self._seconds.labels(route)]
        if chosen_by == "gateway" and code < 400 and not broke_off:
            times += [self._answer.labels(), self._timing.labels(route)]
        return counts, times

    def _count_tokens(self, progress: Progress, *, is_judged: bool) -> None:
        self._tokens_in.inc(progress.prompt_tokens)
        self._tokens_out.inc(progress.completion_tokens)
        if (ttft := progress.time_to_first_token) is not None:
            self._ttft.observe(ttft)
            if is_judged:
                self._first_token.observe(ttft)
                self._timing.labels("ttft").observe(ttft)
        if (tpot := progress.time_per_output_token) is not None:
            self._tpot.observe(tpot)
            if is_judged:
                self._timing.labels("tpot").observe(tpot)

    def expose(self) -> bytes:
        return generate_latest(self.registry)
