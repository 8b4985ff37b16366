from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="outputs",
    words=gettext_noop("Answers had other lengths than asked for: %(value)s of them, limit %(limit)s."),
    limit=0.02,
    value=lambda summary, _: summary.short_outputs,
    is_measuring=False,
)
"""Share: an engine that ends early (no ignore_eos) does less work than another."""
