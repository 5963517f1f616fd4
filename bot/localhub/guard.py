"""Any web page a person has open can send requests to this machine. Only our own pages are listened to."""

from __future__ import annotations

from urllib.parse import urlsplit

from bot.localhub.wire import Request, Response

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with `no-referrer` a browser sends `Origin: null` with our own forms
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def refused(request: Request, server_url: str) -> Response | None:
    """A page asks under the address it was given; what is posted comes from such a page.

    A foreign name in `Host` is a site that points its own name at this machine; a foreign `Origin` is a form elsewhere.
    """
    port = urlsplit(server_url).port
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
    host = request.headers.get("host", "")
    if host not in hosts:
        return words(403, f"This page answers at {server_url} alone, not at the name in the request.")
    if request.method in ("GET", "HEAD"):
        return None
    if request.headers.get("origin") != f"http://{host}":
        return words(403, "This was not sent by a page of ours, so nothing was done. Open the page and try there.")
    return None


def words(status: int, text: str) -> Response:
    return Response(status, f"{text}\n".encode(), {"Content-Type": "text/plain; charset=utf-8", **HEADERS})
