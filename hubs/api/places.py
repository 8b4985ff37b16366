"""Where imports and syncs may read from."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.services.rights import require
from accounts.states import Right
from common.api.examples import example
from common.api.views import Endpoint
from hubs.api import examples
from hubs.states import HubKind


@example(examples.IMPORT_PLACES)
class ImportPlacesSerializer(serializers.Serializer[Any]):
    directories = serializers.ListField(
        child=serializers.CharField(),
        help_text="Import roots: directories of the server.",
    )
    hubs = serializers.ListField(
        child=serializers.CharField(), help_text="URLs of hubs; `hf://` sources refer to the first."
    )
    hub_kinds = serializers.ListField(
        child=serializers.ChoiceField(choices=HubKind.choices), help_text="Supported hub APIs."
    )


class ImportPlaces(Endpoint):
    """The directories and hubs that the operator of the server names."""

    serializer_class = ImportPlacesSerializer
    pagination_class = None

    def show(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Sources from which versions can be imported."""
        require(self.actor, Right.MODELS_WRITE)
        shown = {
            "directories": [str(root) for root in settings.SLIPWAY_IMPORT_ROOTS],
            "hubs": [_without_secret(address) for address in settings.SLIPWAY_HUB_ENDPOINTS],
            "hub_kinds": HubKind.values,
        }
        return Response(self.get_serializer(shown).data)


def _without_secret(address: str) -> str:
    """The address of a hub; an operator may have put a name and a password in front of its host."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


SHOWN = ImportPlaces.as_view({"get": "show"})
