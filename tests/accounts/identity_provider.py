"""A small OpenID Connect provider on a loopback port, for tests: discovery, tokens, userinfo, PKCE."""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt


class IdentityProvider(ThreadingHTTPServer):
    daemon_threads = True
    client_id, client_secret = "slipway", "provider-secret"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.claims: dict[str, Any] = {}
        self.granted: dict[str, tuple[str, dict[str, Any]]] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def authorize(self, location: str) -> str:
        """What the provider's own login page would do: back to the callback with a code."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert asked["client_id"] == self.client_id
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe()
        self.granted[code] = asked["code_challenge"], dict(self.claims)
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
                    "jwks_uri": f"{idp.url}/jwks",
                    "token_endpoint_auth_methods_supported": ["client_secret_post"],
                }
            )
        else:
            _, claims = idp.granted[self.headers["Authorization"].removeprefix("Bearer ")]
            self._send(claims)

    def do_POST(self) -> None:
        idp = self.server
        sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        code, verifier = sent["code"][0], sent["code_verifier"][0]
        challenge, claims = idp.granted[code]
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if digest != challenge or sent["client_secret"][0] != idp.client_secret:
            self._send({"error": "invalid_grant"}, 400)
            return
        times = {"iat": int(time.time()), "exp": int(time.time()) + 60}
        signed = jwt.encode(
            {"iss": idp.url, "aud": idp.client_id, **times, **claims}, "k" * 32, algorithm="HS256"
        )
        self._send({"access_token": code, "token_type": "Bearer", "id_token": signed})

    def _send(self, content: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
