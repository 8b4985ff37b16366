"""Messages that their sender signs instead of holding a token of ours: Google Pub/Sub, for one."""

from drf_spectacular.extensions import OpenApiAuthenticationExtension

from accounts.api.authentication import TokenAuthentication
from accounts.bearer import bearer_token
from accounts.errors import InvalidToken
from accounts.models import ApiToken
from identity.errors import ExchangeRefused
from identity.services import federation

PARTS = 3
"""Of a signed token, by dots."""


class SignedPushAuthentication(TokenAuthentication):
    """`Authorization: Bearer` with one of our tokens, or with one that a service account's credential accepts
    (docs/SIGN_IN.md): it is exchanged, and the message judged by what it is exchanged for."""

    def token_of(self, text: str, *, address: str) -> ApiToken:
        if text.startswith("slp_") or len(text.split(".")) != PARTS:
            return super().token_of(text, address=address)
        try:
            issued = federation.exchange(text, address=address)
        except ExchangeRefused as error:
            raise InvalidToken(str(error)) from None
        return bearer_token(issued.text, address=address)


class SignedPushScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = SignedPushAuthentication
    name = "signed_push"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "slp_<prefix>_<secret>, or a JWT that a credential of a service account accepts",
        }
