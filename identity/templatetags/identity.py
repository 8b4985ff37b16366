from django import template
from django.conf import settings

register = template.Library()


@register.simple_tag
def ways_in() -> dict[str, bool]:
    """Return how people may sign in beside the providers."""
    return {
        "password": settings.SLIPWAY_PASSWORD_LOGIN,
        "break_glass": bool(settings.SLIPWAY_BREAK_GLASS_ACCOUNT),
    }
