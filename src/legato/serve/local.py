"""A web server for one person on this machine: bound to the loopback address, refusing every other name. No TLS.

A page of another site could otherwise reach it through the browser: hence the check of the Host header, and a content
policy that lets a page load nothing from elsewhere.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from legato.errors import BadInput, MissingExtra

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
HEADERS = {
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


def listen(port: int) -> socket.socket:
    """A bound socket on the loopback address; port 0 takes any free one.

    Raises:
        BadInput: the port is in use or may not be taken.
    """
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port just left by us is free again at once
    try:
        door.bind((HOST, port))
        door.listen()
    except OSError as error:
        door.close()
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be taken ({error.strerror})"
        raise BadInput(f"port {port} {reason}; give another one with --port, or 0 for any free one.") from error
    return door


def serve(app: ASGIApp, door: socket.socket, ready: Callable[[str], None]) -> None:
    """Answer on `door` until interrupted; `ready` is called once with the address to open.

    Raises:
        MissingExtra: the web libraries are not installed.
    """
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingExtra("uvicorn", "serve", "a page in the browser") from error
    config = uvicorn.Config(guarded(app), log_level="warning", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    ready(f"http://{HOST}:{door.getsockname()[1]}/")
    server.run(sockets=[door])


def guarded(app: ASGIApp) -> ASGIApp:
    """`app` for this machine's own browser only, with headers that keep its pages to themselves."""
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    async def with_headers(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name not in HEADERS]
                message["headers"] = [*kept, *HEADERS.items()]
            await send(message)

        await app(scope, receive, sending)

    return TrustedHostMiddleware(with_headers, allowed_hosts=[HOST, "localhost"])
