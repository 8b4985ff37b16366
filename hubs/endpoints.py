"""Which hubs the operator allows."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from common.sentences import listed
from model_store.paths import printable
from models_registry.errors import SourceNotAllowed


def checked(endpoint: str, allowed: Sequence[str], refusal: tuple[str, str]) -> str:
    """`endpoint` without a slash at its end, if it is `allowed`. `refusal`: the variable and the sentence."""
    plain, (variable, sentence) = endpoint.strip().rstrip("/"), refusal
    if plain not in allowed:
        hubs = listed(allowed) or _("none")
        raise SourceNotAllowed(
            _(sentence) % {"hub": printable(plain)[:200], "variable": variable, "hubs": hubs}
        )
    return plain


def hosts_of(endpoints: Sequence[str]) -> tuple[str, ...]:
    """`name:port` of each."""
    addresses = [urlsplit(endpoint) for endpoint in endpoints]
    return tuple(
        f"{address.hostname}:{address.port or (443 if address.scheme == 'https' else 80)}"
        for address in addresses
    )
