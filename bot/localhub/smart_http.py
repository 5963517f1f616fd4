"""Clone, fetch and push over HTTP: git's own upload-pack and receive-pack answer. What a token may not move is refused
as GitHub refuses it.

Without `git http-backend` between: it starts two more processes for every request, and says no more than is said here.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path

from bot.localhub.wire import Request, Response
from bot.localhub.world import Account, Token

DEADLINE_S = 300.0
SERVICES = ("git-upload-pack", "git-receive-pack")
FLUSH = b"0000"
FRESH = {"Cache-Control": "no-cache, max-age=0, must-revalidate"}
HOOK = """#!/bin/sh
# Bot branches may be moved with the scope `ledger`; any other needs `push`.
while read -r before after ref; do
  case "$ref" in
    refs/heads/kernelwright/*|refs/heads/optimize/*) ;;
    refs/heads/*|refs/tags/*)
      [ "$HUB_MAY_PUSH" = 1 ] || { echo "GH013: Repository rule violations found for $ref." >&2; exit 1; } ;;
    *) echo "deny updating a hidden ref: $ref" >&2; exit 1 ;;
  esac
done
"""
CONFIG = {
    "uploadpack.allowAnySHA1InWant": "true",
    "receive.autogc": "false",
    "gc.auto": "0",
    "safe.directory": "*",
}


def write_hook(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hook = folder / "pre-receive"
    hook.write_text(HOOK, encoding="utf-8")
    hook.chmod(0o755)


def _environment(protocol: str, config: Mapping[str, str]) -> dict[str, str]:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_PROTOCOL": protocol,
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for index, (key, value) in enumerate(config.items()):
        environment |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return environment


def _refused(request: Request, account: Account | None, token: Token | None) -> Response | None:
    """Anybody may read a public repository; without credentials a push is asked for them."""
    if "git-receive-pack" not in (request.query.get("service"), request.path.rpartition("/")[2]):
        return None
    if account is None or token is None:
        return Response(401, b"Authentication required\n", {"WWW-Authenticate": 'Basic realm="GitHub"'})
    if not account.role.may_write or not token.scopes & {"push", "ledger"}:
        return Response(403, f"Permission denied to {account.login}.\n".encode(), {"Content-Type": "text/plain"})
    return None


def serve(
    bare: Path, action: str, request: Request, account: Account | None, token: Token | None, hooks: Path
) -> Response:
    """One request on one bare repository."""
    refused = _refused(request, account, token)
    if refused is not None:
        return refused
    asked = _asked(action, request)
    if asked is None:
        return Response(404, b"Not Found\n", {"Content-Type": "text/plain"})
    service, told = asked
    try:
        body = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
    except (OSError, EOFError, zlib.error):
        return Response(400, b"This body is not gzip\n", {"Content-Type": "text/plain"})
    protocol = request.headers.get("git-protocol", "")
    environment = _environment(protocol, {**CONFIG, "core.hooksPath": str(hooks)})
    environment["HUB_MAY_PUSH"] = "1" if token and "push" in token.scopes else "0"
    command = (shutil.which("git") or "git", service.removeprefix("git-"), "--stateless-rpc", *told, str(bare))
    done = subprocess.run(command, input=body, capture_output=True, env=environment, timeout=DEADLINE_S, check=False)
    if not told:
        return Response(200, done.stdout, {**FRESH, "Content-Type": f"application/x-{service}-result"})
    # The second version of the protocol names itself; before that the service has to be said.
    named = b"" if "version=2" in protocol and service == SERVICES[0] else _line(f"# service={service}\n") + FLUSH
    return Response(200, named + done.stdout, {**FRESH, "Content-Type": f"application/x-{service}-advertisement"})


def _asked(action: str, request: Request) -> tuple[str, tuple[str, ...]] | None:
    """The service and what it is told: to list its refs, or to take a request. None for what only old clients ask."""
    if request.method == "GET" and action == "/info/refs" and request.query.get("service") in SERVICES:
        return request.query["service"], ("--http-backend-info-refs",)
    name = action.removeprefix("/")
    return (name, ()) if request.method == "POST" and name in SERVICES else None


def _line(text: str) -> bytes:
    """A line as git frames it: its length in front, in four hexadecimal digits that count themselves."""
    return f"{len(text) + 4:04x}{text}".encode()
