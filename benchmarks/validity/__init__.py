"""Rules that a window must keep for its figures to count: each one file, its limit as data.

A window that breaks one is shown with the reason, and never wins.
"""

from collections.abc import Sequence

from benchmarks.figures import Summary
from benchmarks.load.scenario import LoadScenario
from benchmarks.validity import (
    cache,
    client,
    clocks,
    lateness,
    offered,
    outputs,
    prompts,
    restarts,
    samples,
    saturation,
    shared,
    throttled,
    tokens,
)
from benchmarks.validity.rule import ValidityRule, Violation

RULES: Sequence[ValidityRule] = (
    lateness.RULE,
    offered.RULE,
    client.RULE,
    tokens.RULE,
    prompts.RULE,
    outputs.RULE,
    cache.RULE,
    restarts.RULE,
    shared.RULE,
    throttled.RULE,
    clocks.RULE,
    samples.RULE,
    saturation.RULE,
)
BY_NAME = {rule.name: rule for rule in RULES}


def violations(summary: Summary, scenario: LoadScenario) -> list[Violation]:
    """Every rule that the window breaks, in the order of the rules."""
    return [broken for rule in RULES if (broken := rule.judge(summary, scenario)) is not None]
