"""Whether the store can be that of several hosts."""

from django.conf import settings
from django.utils.translation import gettext as _

from common.hosts import this_host
from common.reconcile.pulses import living_hosts


def why_not_shared() -> str:
    """Why other hosts do not find what this one stores; empty when they do. One query at most."""
    if settings.SLIPWAY_STORE or settings.SLIPWAY_STORE_IS_SHARED_DIRECTORY:
        return ""
    if others := sorted(living_hosts() - {this_host()}):
        return _(
            "Models would lie in the home of this host alone, and %(others)s shares its database. Set "
            "SLIPWAY_STORE to a directory or a bucket that all hosts share."
        ) % {"others": ", ".join(others)}
    return ""
