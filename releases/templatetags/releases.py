"""What templates say of releases."""

from django import template
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from common.templatetags.slipway import at
from releases.pages.live import Live, in_words
from releases.plans.step import kinds

register = template.Library()


@register.filter
def step_name(kind: str) -> str:
    """Return the title of a kind of step: its title in the row is English, as rows are."""
    return gettext(kinds()[kind].label) if kind in kinds() else kind or ""


@register.simple_tag
def live_words(live: Live) -> SafeString:
    """`{% live_words live %}`: the versions that answered at a time, in sentences."""
    return in_words(live, at)
