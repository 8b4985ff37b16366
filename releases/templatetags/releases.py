"""What templates say of releases."""

from django import template
from django.utils.translation import gettext

from releases.plans.step import kinds

register = template.Library()


@register.filter
def step_name(kind: str) -> str:
    """What a kind of step is called: its title in the row is English, as rows are."""
    return gettext(kinds()[kind].label) if kind in kinds() else kind or ""
