"""A small OpenID Connect provider on a loopback port, for tests: discovery, signed tokens, userinfo, PKCE,
refresh tokens that are exchanged at each use, logout tokens."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

BACKCHANNEL = "http://schemas.openid.net/event/backchannel-logout"


class IdentityProvider(ThreadingHTTPServer):
    daemon_threads = True
    client_id, client_secret = "slipway", "provider-secret"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] | None = None
        """What userinfo says, where it is not what the id_token says."""
        self.nonce: str | None = None
        """In place of the one that was sent."""
        self.granted: dict[str, tuple[str, dict[str, Any]]] = {}
        self.refresh_tokens: dict[str, dict[str, Any]] = {}
        """Those that are accepted, with the claims that they lead to."""
        self.refresh_answer: tuple[int, dict[str, Any]] | None = None
        """In place of a real one."""
        self.sign_id_token: Callable[[dict[str, Any]], str] = self.sign
        self.algorithms = ["ES256", "HS256", "none"]
        self.metadata: dict[str, Any] = {}
        """In place of the documented addresses."""
        self.key_requests = 0
        self.rotate_key()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def rotate_key(self) -> None:
        self.key = generate_private_key(SECP256R1())
        self.kid = secrets.token_hex(4)

    @property
    def published_key(self) -> dict[str, Any]:
        found = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return found | {"kid": self.kid, "use": "sig", "alg": "ES256"}

    def sign(self, claims: dict[str, Any], **headers: Any) -> str:
        return jwt.encode(claims, self.key, algorithm="ES256", headers={"kid": self.kid, **headers})

    def id_token(self, **claims: Any) -> str:
        now = int(time.time())
        told = {"iss": self.url, "aud": self.client_id, "iat": now, "exp": now + 60, **claims}
        return self.sign_id_token(told)

    def logout_token(self, **claims: Any) -> str:
        told = {"jti": secrets.token_hex(8), "events": {BACKCHANNEL: {}}, **claims}
        return self.id_token(**told)

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def authorize(self, location: str) -> str:
        """Log in as the provider's own page would: back to the callback with a code."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert asked["client_id"] == self.client_id
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe()
        nonce = asked["nonce"] if self.nonce is None else self.nonce
        self.granted[code] = asked["code_challenge"], {**self.claims, "nonce": nonce}
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"


class _Answers(BaseHTTPRequestHandler):
    server: IdentityProvider

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        idp = self.server
        if self.path == "/.well-known/openid-configuration":
            self._send(
                {
                    "issuer": idp.url,
                    "authorization_endpoint": f"{idp.url}/authorize",
                    "token_endpoint": f"{idp.url}/token",
                    "userinfo_endpoint": f"{idp.url}/userinfo",
                    "end_session_endpoint": f"{idp.url}/end",
                    "jwks_uri": f"{idp.url}/jwks",
                    "token_endpoint_auth_methods_supported": ["client_secret_post"],
                    "id_token_signing_alg_values_supported": idp.algorithms,
                    **idp.metadata,
                }
            )
        elif self.path == "/jwks":
            idp.key_requests += 1
            self._send({"keys": [idp.published_key]})
        else:
            _, claims = idp.granted[self.headers["Authorization"].removeprefix("Bearer ")]
            self._send(claims if idp.userinfo is None else idp.userinfo)

    def do_POST(self) -> None:
        idp = self.server
        sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if sent["grant_type"] == ["refresh_token"]:
            self._refresh(sent["refresh_token"][0])
            return
        code, verifier = sent["code"][0], sent["code_verifier"][0]
        challenge, claims = idp.granted[code]
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if digest != challenge or sent["client_secret"][0] != idp.client_secret:
            self._send({"error": "invalid_grant"}, 400)
            return
        self._send(self._tokens(code, claims))

    def _refresh(self, token: str) -> None:
        idp = self.server
        claims = idp.refresh_tokens.pop(token, None)
        if idp.refresh_answer is not None:
            status, content = idp.refresh_answer
            self._send(content, status)
        elif claims is None:
            self._send({"error": "invalid_grant", "error_description": "The grant was revoked."}, 400)
        else:
            self._send(self._tokens(secrets.token_urlsafe(), claims))

    def _tokens(self, access_token: str, claims: dict[str, Any]) -> dict[str, Any]:
        idp = self.server
        refresh_token = secrets.token_urlsafe()
        idp.refresh_tokens[refresh_token] = {name: one for name, one in claims.items() if name != "nonce"}
        return {
            "access_token": access_token,
            "token_type": "Bearer",
            "id_token": idp.id_token(**claims),
            "refresh_token": refresh_token,
        }

    def _send(self, content: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
