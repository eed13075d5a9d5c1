# SPDX-License-Identifier: Apache-2.0
"""A backend with FastAPI: tokens for its users, a notification, and webhooks of Tidings.

pip install fastapi uvicorn tidings-client
TIDINGS_TENANT_KEY=sk_... WEBHOOK_SECRET=whsec_... python3 examples/fastapi_backend/backend.py
"""

import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import uvicorn
from fastapi import Cookie, FastAPI, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse

from tidings_client import (
    InboxConfig,
    NewNotification,
    TenantApi,
    WebhookReceiver,
    WebhookRefused,
)

TIDINGS = os.environ.get("SERVER_URL", "http://127.0.0.1:8080")
TENANT = os.environ.get("TENANT", "acme")
KEY = os.environ["TIDINGS_TENANT_KEY"]  # the tenant key: it never leaves the backend
PORT = int(os.environ.get("PORT", "9000"))

tidings = TenantApi(TIDINGS, TENANT, KEY)
receiver = WebhookReceiver(os.environ["WEBHOOK_SECRET"])
seen: deque[str] = deque(maxlen=10_000)
"""The newest webhooks. Your backend keeps their ids in its database."""
events: deque[dict[str, Any]] = deque(maxlen=100)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Create the inbox before the first request."""
    await tidings.put_inbox("orders", InboxConfig(title="Orders"))
    yield
    await tidings.close()


app = FastAPI(lifespan=lifespan)


@app.get("/sign-in")
async def sign_in(user: str) -> Response:
    """Your product checks a password here, and its cookie cannot be forged."""
    answer = RedirectResponse("/", status_code=303)
    answer.set_cookie("user", user, httponly=True, samesite="strict")
    return answer


@app.get("/token")
async def token(user: Annotated[str | None, Cookie()] = None) -> PlainTextResponse:
    """Return a token of the user who is signed in; Tidings creates the user at the first one."""
    if user is None:
        raise HTTPException(401)
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}) as http:
        wanted = {"user_id": user, "expires_in": 3600}
        answer = await http.post(f"{TIDINGS}/v1/tenants/{TENANT}/tokens", json=wanted)
    return PlainTextResponse(
        answer.raise_for_status().json()["token"], headers={"Cache-Control": "no-store"}
    )


@app.post("/orders/{order}/shipped", status_code=202)
async def shipped(order: str, user: str) -> dict[str, str]:
    """Notify a user. The order is the key: a repeat notifies nobody twice."""
    news = NewNotification(title="Your order has left", body=f"Order {order} arrives tomorrow.")
    posted = await tidings.post_to_users("orders", [user], news, key=f"shipped-{order}")
    return {"notification_id": posted.id}


@app.post("/hook", status_code=204)
async def hook(request: Request) -> None:
    """Take a webhook: verify it, recognise repeats, answer soon, and do the work afterwards."""
    try:
        event = receiver.verify(request.headers, await request.body())
    except WebhookRefused as refused:
        raise HTTPException(400, str(refused)) from None
    if event.webhook_id not in seen:
        seen.append(event.webhook_id)
        events.append({"type": event.type, "data": event.data})


@app.get("/events")
async def taken() -> list[dict[str, Any]]:
    """Return what the webhooks reported. Your backend shows this to nobody."""
    return list(events)


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT)
