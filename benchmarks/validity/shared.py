from django.utils.translation import gettext_noop

from benchmarks.validity.rule import ValidityRule

RULE = ValidityRule(
    name="shared",
    words=gettext_noop("GPUs were shared: %(value)s of them, or workers of others beside it."),
    limit=0,
    value=lambda summary, _: summary.gpu_sharers,
)
