from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="prompts",
    words=gettext_noop("Prompts had other lengths than asked for: off by %(value)s, limit %(limit)s."),
    limit=0.1,
    value=lambda summary, _: None if summary.input_ratio is None else abs(summary.input_ratio - 1),
)
"""Share of the tokens of all prompts, by the server's count."""
