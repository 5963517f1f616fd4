"""Clone, fetch and push by git's own http-backend. What a token may not move is refused as GitHub refuses it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bot.localhub.wire import Request, Response
from bot.localhub.world import Account, Token

DEADLINE_S = 300.0
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
    "http.receivepack": "true",
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


def _environment(bare: Path, action: str, request: Request, login: str, config: Mapping[str, str]) -> dict[str, str]:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_PROJECT_ROOT": str(bare),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        "REQUEST_METHOD": request.method,
        "PATH_INFO": action,
        "QUERY_STRING": "&".join(f"{name}={value}" for name, value in request.query.items()),
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
        "REMOTE_USER": login,
        "REMOTE_ADDR": "127.0.0.1",
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
    """Run http-backend for one request on one bare repository."""
    refused = _refused(request, account, token)
    if refused is not None:
        return refused
    environment = _environment(
        bare, action, request, account.login if account else "", {**CONFIG, "core.hooksPath": str(hooks)}
    )
    environment["HUB_MAY_PUSH"] = "1" if token and "push" in token.scopes else "0"
    git = shutil.which("git") or "git"
    done = subprocess.run(
        (git, "http-backend"), input=request.body, capture_output=True, env=environment, timeout=DEADLINE_S, check=False
    )
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
    status = int(headers.pop("Status", "200" if headers else "500").split(" ")[0])
    return Response(status, body, headers)
