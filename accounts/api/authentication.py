from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from accounts import actors
from accounts.bearer import CHALLENGE, bearer_text, bearer_token
from accounts.errors import InvalidToken
from accounts.models import ApiToken, User
from common.logs import context


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer slp_...`; a request that carries one is judged by it alone."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        text = bearer_text(request.headers.get("Authorization", ""))
        if text is None:
            return None
        address = request.META.get("REMOTE_ADDR", "")
        try:
            token = self.token_of(text, address=address)
        except InvalidToken as error:
            raise AuthenticationFailed(str(error)) from None
        request._request.actor = actors.of_token(token, address=address)  # type: ignore[attr-defined]
        context.note_actor(token.owner.username)
        return token.owner, token

    def token_of(self, text: str, *, address: str) -> ApiToken:
        """Raises InvalidToken."""
        return bearer_token(text, address=address)

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class SessionAuthentication(authentication.SessionAuthentication):
    """The browser's session; changes need its CSRF token."""


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "slp_<prefix>_<secret>"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = SessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
