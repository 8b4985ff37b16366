"""What templates say of releases."""

from django import template

from releases import stored
from releases.pages.plan_form import KIND_NAMES

register = template.Library()


@register.filter
def step_name(kind: str) -> str:
    """What a kind of step is called: its title in the row is English, as rows are."""
    return str(KIND_NAMES.get(kind, kind or ""))


@register.filter
def retold(text: str) -> str:
    return stored.retold(text)
