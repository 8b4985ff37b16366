from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="throttled",
    words=gettext_noop("GPUs were slowed down by heat, hardware or a power brake (%(value)s findings)."),
    limit=0,
    value=lambda summary, _: summary.gpu_slowdowns,
)
