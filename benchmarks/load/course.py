"""The course of one run's load: smoke requests, calibration of prompts, warm-up, a window for each rate."""

import json
import random
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.figures import is_within
from benchmarks.load import scraping
from benchmarks.load.engine import LoadEngine, LoadTarget
from benchmarks.load.max_rate import BrokenTargets, RateProbe, next_rate
from benchmarks.load.openai import path_of, plain_usage
from benchmarks.load.prompts import WORDS, TokenRatio
from benchmarks.load.records import WindowRecord
from benchmarks.load.scenario import Arrivals, LoadScenario
from serving.protocol import CHOSEN_BY_HEADER

CALIBRATION_WORDS = (len(WORDS), 48, 12)
"""Of a prompt; the shorter ones for models of a short context."""
WARM_UP_WINDOW = 1_000_000
"""No window of measuring has its number, so none has its prompts."""


class SmokeFailed(Exception):
    """The server does not answer as it must; the message says how."""


def windows(
    engine: LoadEngine,
    scenario: LoadScenario,
    target: LoadTarget,
    *,
    tell: Callable[[str, int, float], object] = print,
) -> Iterator[WindowRecord]:
    """Raises SmokeFailed, TooFewCores. `tell`: stage, window and rate of what begins."""
    engine.check(scenario)
    tell("smoke", 0, 0)
    ratio = calibrated(target, scenario)
    if scenario.warm_up_requests:
        tell("warm up", 0, scenario.rates[0])
        like: Arrivals = "concurrency" if scenario.is_closed_loop else "constant"
        warm_up = replace(scenario, requests=scenario.warm_up_requests, seconds=None, arrivals=like)
        engine.measure(warm_up, target, ratio, rate=scenario.rates[0], window=WARM_UP_WINDOW)
    probes: list[RateProbe] = []
    is_good = partial(is_within, targets=scenario.targets)
    for number, rate in enumerate(_rates(scenario, probes)):
        tell("measure", number, rate)
        before = scraping.prefix_cache(target.addresses)
        broken = BrokenTargets(is_good, scenario.targets.share) if scenario.find_max_rate else None
        record = engine.measure(scenario, target, ratio, rate=rate, window=number, broken=broken)
        record.prefix_hits = scraping.hit_share(before, scraping.prefix_cache(target.addresses))
        good = sum(map(is_good, record.requests))
        probes.append(RateProbe(rate, good >= scenario.targets.share * max(1, len(record.requests))))
        yield record


def _rates(scenario: LoadScenario, probes: Sequence[RateProbe]) -> Iterator[float]:
    if not scenario.find_max_rate:
        yield from scenario.rates
        return
    while (rate := next_rate(probes, scenario.rates[0])) is not None:
        yield rate


def calibrated(target: LoadTarget, scenario: LoadScenario) -> TokenRatio:
    """Measure how the server counts the tokens of our words. Raises SmokeFailed."""
    words = list(WORDS)
    random.Random(scenario.seed).shuffle(words)  # noqa: S311  (to be repeated)
    fault = ""
    for length in CALIBRATION_WORDS:
        try:
            # All words each time: those of a few prompts alone may have twice the tokens of others.
            whole, halves = (_counted(target, scenario, words, size) for size in (length, length // 2))
        except SmokeFailed as error:
            fault = fault or str(error)
            continue
        return TokenRatio.measured(whole, halves, words=len(words))
    raise SmokeFailed(fault)


def _counted(target: LoadTarget, scenario: LoadScenario, words: Sequence[str], size: int) -> tuple[int, int]:
    """Return how many prompts of so many words all of the words make, and the tokens of all of these."""
    prompts = [" ".join(words[place : place + size]) for place in range(0, len(words), size)]
    return len(prompts), sum(_prompt_tokens(target, scenario, one) for one in prompts)


def _prompt_tokens(target: LoadTarget, scenario: LoadScenario, prompt: str) -> int:
    chat = scenario.api == "chat"
    asked = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
    body = json.dumps({"model": target.model, "max_tokens": 1, "temperature": 0, **asked}).encode()
    path = path_of(scenario)
    headers = {"Content-Type": "application/json", CHOSEN_BY_HEADER: "client"}
    if target.token:
        headers["Authorization"] = f"Bearer {target.token}"
    request = urllib.request.Request(f"{target.addresses[0].rstrip('/')}{path}", body, headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=scenario.timeout_seconds) as answer:  # noqa: S310
            tokens, _ = plain_usage(answer.read())
    except urllib.error.HTTPError as error:
        said = error.read(300).decode("utf-8", "replace")
        raise SmokeFailed(f"The server answered a smoke request {error.code}: {said}") from None
    except (OSError, ValueError) as error:
        raise SmokeFailed(f"The server did not answer a smoke request: {error}") from None
    if not tokens:
        raise SmokeFailed("The server does not count the tokens of prompts (usage.prompt_tokens).")
    return tokens
