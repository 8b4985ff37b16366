"""A scenario: what is sent, when, and which latencies the answers must keep. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from json import dumps
from typing import Any, Literal, get_args

from benchmarks.load.faults import FaultText, is_number, is_whole, known_fields, not_one_of, not_whole

Api = Literal["completions", "chat"]
Arrivals = Literal["poisson", "constant", "gamma", "trace", "concurrency"]
LengthKind = Literal["fixed", "lognormal", "histogram"]

MOST_RATES = 32
MOST_REQUESTS = 200_000
MOST_SECONDS = 6 * 3600
MOST_TOKENS = 1_000_000
MOST_WARM_UP_REQUESTS = 10_000


def _(text: str) -> str:
    """Mark a text for the catalogues: this module knows no language."""
    return text


class ScenarioFaults(ValueError):
    """`fields`: sentences by the dotted name of the field that they are about."""

    def __init__(self, faults: Mapping[str, FaultText]) -> None:
        super().__init__("; ".join(f"{name}: {said}" for name, said in faults.items()))
        self.fields = dict(faults)


@dataclass(frozen=True, slots=True)
class TokenLengths:
    """Tokens of prompts or of answers."""

    kind: LengthKind = "fixed"
    tokens: int = 64
    """Of each, or the median of a lognormal distribution."""
    sigma: float = 0.5
    """Standard deviation of the logarithm."""
    most: int = MOST_TOKENS
    """Longer ones are cut to it."""
    bins: tuple[tuple[int, float], ...] = ()
    """Of a histogram: tokens and weight."""

    @property
    def mean(self) -> float:
        if self.kind == "histogram":
            return sum(tokens * weight for tokens, weight in self.bins) / sum(one for _, one in self.bins)
        return self.tokens * (math.exp(self.sigma**2 / 2) if self.kind == "lognormal" else 1)


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """A request of a recorded trace; `at` in seconds since its beginning."""

    at: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class LatencyTargets:
    """Service level objectives: of each request, and the share of requests that must keep all of them."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    share: float = 0.95

    @property
    def is_empty(self) -> bool:
        return self.ttft_ms is None and self.tpot_ms is None and self.e2e_ms is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadScenario:
    api: Api = "completions"
    streaming: bool = True
    arrivals: Arrivals = "poisson"
    rates: tuple[float, ...] = (1.0,)
    """Requests per second, one window each; of `concurrency`: requests in flight."""
    find_max_rate: bool = False
    """Instead of all rates: from the first one on, find the highest at which the targets hold."""
    burstiness: float = 1.0
    """Of `gamma`: the squared coefficient of variation of the gaps; 1 is poisson."""
    requests: int | None = 100
    """Of a window; or `seconds`."""
    seconds: float | None = None
    warm_up_requests: int = 8
    """Sent before the first window and not measured."""
    input: TokenLengths = TokenLengths(tokens=128)
    output: TokenLengths = TokenLengths(tokens=64)
    trace: tuple[TracedRequest, ...] = ()
    """Of `trace`: replayed so that its mean rate is that of the window; gives the lengths, too."""
    shared_prefix: float = 0.0
    """Share of each prompt that all of a window have in common."""
    wants_cache_hits: bool = False
    """Whether hits in the server's prefix cache are meant."""
    targets: LatencyTargets = field(default_factory=LatencyTargets)
    timeout_seconds: float = 120.0
    seed: int = 1

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def digest(self) -> str:
        return sha256(dumps(self.as_json(), sort_keys=True).encode()).hexdigest()

    @property
    def is_closed_loop(self) -> bool:
        """Whether a request is sent when another has ended, so that rates are requests in flight."""
        return self.arrivals == "concurrency"

    @property
    def least_seconds(self) -> float:
        """Time that the windows of a run take at least; a search for the highest rate counts as ten."""
        if self.arrivals == "trace":
            return sum(len(self.trace) / rate for rate in self.rates)
        rates = self.rates[:1] * 10 if self.find_max_rate else self.rates
        return sum(self.seconds or (self.requests or 0) / rate for rate in rates)

    def prefix_seed(self, window: int) -> int:
        """Return the seed of what the prompts of a window have in common; windows never share it."""
        return self.seed + 1_000_003 * (window + 1)

    def count(self, rate: float) -> int:
        """Requests of a window at this rate, where the arrivals do not say it."""
        if self.arrivals == "trace":
            return len(self.trace)
        if self.requests is not None:
            return self.requests
        # Of `concurrency` nobody knows how many: as many as come back within the seconds.
        return MOST_REQUESTS if self.is_closed_loop else max(1, round(rate * (self.seconds or 0)))


def scenario_of(given: Mapping[str, Any]) -> LoadScenario:
    """The scenario that a JSON object describes. Raises ScenarioFaults."""
    faults: dict[str, FaultText] = {}
    values = known_fields(given, LoadScenario, "", faults, root="scenario")
    for name in ("input", "output"):
        if name in values:
            values[name] = _lengths(values[name], name, faults)
    if "targets" in values:
        values["targets"] = _targets(values["targets"], faults)
    if "trace" in values:
        values["trace"] = _trace(values["trace"], faults)
    if "rates" in values:
        rates = values["rates"]
        values["rates"] = tuple(rates) if isinstance(rates, Sequence) and not isinstance(rates, str) else ()
    if "seconds" in values and values["seconds"] is not None:
        values.setdefault("requests", None)
    scenario = LoadScenario(**values)
    faults = {**_plain_faults(scenario), **faults}
    if faults:
        raise ScenarioFaults(faults)
    return scenario


def _targets(given: object, faults: dict[str, FaultText]) -> LatencyTargets:
    told = known_fields(given, LatencyTargets, "targets.", faults)
    for name, value in told.items():
        if value is not None and not is_number(value, above=0):
            faults[f"targets.{name}"] = FaultText(_("Give a number above 0; leave it out to set no target."))
    if is_number(told.get("share", 1), above=0) and told.get("share", 1) > 1:
        faults["targets.share"] = FaultText(_("Give a share above 0 and at most 1, such as 0.95."))
    return LatencyTargets(**told)


def _lengths(given: object, name: str, faults: dict[str, FaultText]) -> TokenLengths:
    if isinstance(given, int) and not isinstance(given, bool):
        given = {"tokens": given}
    told = known_fields(given, TokenLengths, f"{name}.", faults)
    if told.get("kind", "fixed") not in get_args(LengthKind):
        faults[f"{name}.kind"] = not_one_of(get_args(LengthKind))
    for key in ("tokens", "most"):
        if key in told and not is_whole(told[key], 1, MOST_TOKENS):
            faults[f"{name}.{key}"] = not_whole(1, MOST_TOKENS)
    if "sigma" in told and not (is_number(told["sigma"], above=0) and told["sigma"] <= 3):
        faults[f"{name}.sigma"] = FaultText(_("Give a number above 0 and at most 3."))
    bins = told.get("bins", ())
    try:
        told["bins"] = tuple((int(tokens), float(weight)) for tokens, weight in bins)
        is_good = all(1 <= tokens <= MOST_TOKENS and weight > 0 for tokens, weight in told["bins"])
    except (TypeError, ValueError):
        told["bins"], is_good = (), False
    if not is_good or (told.get("kind") == "histogram" and not told["bins"]):
        faults[f"{name}.bins"] = FaultText(_("Give pairs of tokens and weight, such as [[64, 3], [512, 1]]."))
    return TokenLengths() if any(key.startswith(f"{name}.") for key in faults) else TokenLengths(**told)


def _trace(given: object, faults: dict[str, FaultText]) -> tuple[TracedRequest, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) > MOST_REQUESTS:
        faults["trace"] = FaultText(
            _("Give a list of at most %(most)s requests."), {"most": f"{MOST_REQUESTS:,}"}
        )
        return ()
    found: list[TracedRequest] = []
    for place, one in enumerate(given):
        told = known_fields(one, TracedRequest, f"trace.{place}.", faults)
        lengths = (told.get("input_tokens"), told.get("output_tokens"))
        has_lengths = all(is_whole(tokens, 1, MOST_TOKENS) for tokens in lengths)
        if not has_lengths or not is_number(told.get("at"), least=0):
            faults[f"trace.{place}"] = FaultText(_("Give at (seconds), input_tokens and output_tokens."))
            return ()
        found.append(TracedRequest(**told))
        if place and found[-1].at < found[-2].at:
            faults[f"trace.{place}.at"] = FaultText(_("Times of a trace must not decrease."))
            return ()
    return tuple(found)


def _plain_faults(scenario: LoadScenario) -> dict[str, FaultText]:
    faults: dict[str, FaultText] = {}
    for name, choices in (("api", get_args(Api)), ("arrivals", get_args(Arrivals))):
        if getattr(scenario, name) not in choices:
            faults[name] = not_one_of(choices)
    for name in ("streaming", "find_max_rate", "wants_cache_hits"):
        if not isinstance(getattr(scenario, name), bool):
            faults[name] = FaultText(_("Give true or false."))
    rates = scenario.rates
    if not rates or len(rates) > MOST_RATES or not all(is_number(rate, above=0) for rate in rates):
        faults["rates"] = FaultText(
            _("Give 1 to %(most)s numbers above 0: requests per second."), {"most": MOST_RATES}
        )
    elif len(set(rates)) < len(rates):
        faults["rates"] = FaultText(_("Give each rate once."))
    elif max(rates) > 10_000:
        faults["rates"] = FaultText(_("Give at most 10,000 requests per second."))
    elif scenario.is_closed_loop and any(rate != int(rate) for rate in rates):
        faults["rates"] = FaultText(_("For concurrency, rates are requests in flight: give whole numbers."))
    if scenario.requests is not None and not is_whole(scenario.requests, 1, MOST_REQUESTS):
        faults["requests"] = not_whole(1, MOST_REQUESTS)
    if scenario.seconds is not None and not (
        is_number(scenario.seconds, above=0) and scenario.seconds <= MOST_SECONDS
    ):
        faults["seconds"] = FaultText(
            _("Give a number above 0, %(most)s at most."), {"most": f"{MOST_SECONDS:,}"}
        )
    if (scenario.requests is None) == (scenario.seconds is None) and scenario.arrivals != "trace":
        faults["requests"] = FaultText(_("Give either requests or seconds per window."))
    if not is_whole(scenario.warm_up_requests, 0, MOST_WARM_UP_REQUESTS):
        faults["warm_up_requests"] = not_whole(0, MOST_WARM_UP_REQUESTS)
    if not (is_number(scenario.burstiness, above=0) and scenario.burstiness <= 100):
        faults["burstiness"] = FaultText(_("Give a number above 0 and at most 100."))
    if not (is_number(scenario.shared_prefix, least=0) and scenario.shared_prefix < 1):
        faults["shared_prefix"] = FaultText(_("Give a share from 0 to below 1."))
    if not (is_number(scenario.timeout_seconds, above=0) and scenario.timeout_seconds <= 3600):
        faults["timeout_seconds"] = FaultText(_("Give a number above 0, 3,600 at most."))
    if not is_whole(scenario.seed, 0, 2**53):
        faults["seed"] = FaultText(_("Give a whole number from 0 on."))
    if scenario.arrivals == "trace" and not scenario.trace:
        faults["trace"] = FaultText(
            _("Trace arrivals need a trace: a list of at, input_tokens and output_tokens.")
        )
    if scenario.find_max_rate and (scenario.targets.is_empty or scenario.is_closed_loop):
        faults["find_max_rate"] = FaultText(
            _("Finding the highest rate needs targets, and arrivals other than concurrency.")
        )
    return faults
