from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="clocks",
    words=gettext_noop("GPU clocks moved by %(value)s of themselves under load, limit %(limit)s."),
    limit=0.1,
    value=lambda summary, _: summary.clock_spread,
)
"""Share: a power cap or a person moved them, and runs of other clocks do not compare."""
