"""An OpenID provider: a real server tells its keys, and it signs tokens."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa


class Issuer:
    """`with Issuer() as issuer`: a provider with one key, which is asked at its `url`."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.asked = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                if self.path.endswith("openid-configuration"):
                    body = {"jwks_uri": f"{issuer.url}/keys"}
                else:
                    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(issuer.key.public_key()))
                    body = {"keys": [{**public, "kid": "one"}, {"kty": "strange", "kid": "two"}]}
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def token(
        self, *, key: Any = None, kid: str = "one", algorithm: str = "RS256", **claims: Any
    ) -> str:
        """Return a signed token of an editor of orders; a claim that is None is left out."""
        now = int(time.time())
        usual = {
            "iss": self.url,
            "aud": "penstock",
            "exp": now + 60,
            "sub": "ada",
            "penstock": [{"role": "editor", "connectors": "orders-.*"}],
        }
        signed = {key_: value for key_, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(signed, key or self.key, algorithm, headers={"kid": kid})
