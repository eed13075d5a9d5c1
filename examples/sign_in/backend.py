# SPDX-License-Identifier: Apache-2.0
"""The smallest backend of a product: it knows who is signed in, and gets them tokens for Tidings.

    TIDINGS_TENANT_KEY=sk_... python3 examples/sign_in/backend.py examples/embed_chat

serves the pages of a folder at http://127.0.0.1:9000, and the token of the current user at /token.
"""

import json
import os
import sys
import urllib.request
from functools import partial
from http.cookies import SimpleCookie
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

TIDINGS = os.environ.get("SERVER_URL", "http://127.0.0.1:8080")
TENANT = os.environ.get("TENANT", "acme")
KEY = os.environ["TIDINGS_TENANT_KEY"]  # the tenant key: it never leaves the backend
PORT = int(os.environ.get("PORT", "9000"))


def token_for(user_id: str) -> bytes:
    """Ask Tidings for a token of a user, whom it creates if it does not know the user."""
    request = urllib.request.Request(
        f"{TIDINGS}/v1/tenants/{TENANT}/tokens",
        data=json.dumps({"user_id": user_id, "expires_in": 3600}).encode(),
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["token"]).encode()


class Backend(SimpleHTTPRequestHandler):
    """Answers the requests of browsers."""

    def do_GET(self) -> None:
        path, _, user_id = self.path.partition("?as=")
        if path == "/sign-in" and user_id.isalnum():
            # Your product checks a password here, and its cookie cannot be forged.
            self.send_response(303)
            self.send_header("Set-Cookie", f"user={user_id}; HttpOnly; SameSite=Strict")
            self.send_header("Location", "/")
            self.end_headers()
        elif path == "/token":
            user = SimpleCookie(self.headers["Cookie"]).get("user")
            self.send_response(200 if user else 401)
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(token_for(user.value) if user else b"")
        else:
            super().do_GET()


if __name__ == "__main__":
    backend = partial(Backend, directory=sys.argv[1])
    ThreadingHTTPServer(("127.0.0.1", PORT), backend).serve_forever()
