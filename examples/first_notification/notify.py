# SPDX-License-Identifier: Apache-2.0
"""Creates an inbox, and posts a notification to one user.

TIDINGS_TENANT_KEY=sk_... python3 examples/first_notification/notify.py alice "Your order has left"
"""

import json
import os
import sys
import urllib.request

TIDINGS = os.environ.get("SERVER_URL", "http://127.0.0.1:8080")
TENANT = os.environ.get("TENANT", "acme")
INBOX = f"{TIDINGS}/v1/tenants/{TENANT}/inboxes/orders"


def send(method: str, url: str, body: object) -> None:
    """Send a request with the tenant key."""
    headers = {
        "Authorization": f"Bearer {os.environ['TIDINGS_TENANT_KEY']}",
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request) as answer:
        print(answer.status, answer.read().decode())


if __name__ == "__main__":
    user, title = sys.argv[1:3]
    send("PUT", INBOX, {"title": "Orders"})
    audience = {"kind": "users", "uids": [user]}
    message = {"title": title, "body": "It arrives tomorrow."}
    send("POST", f"{INBOX}/notifications", {"audience": audience, "message": message})
