"""Runs git: fixed argv, no shell, a scrubbed environment, a deadline, and errors that carry no secret."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bot.errors import GitError, OperatorError

LOCAL_S = 120.0
NETWORK_S = 300.0
CLONE_S = 900.0
MAX_ERROR = 1200
"""Characters of git's own words in a message; a hostile server can send megabytes."""

PASSED_ON = (
    "PATH",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
)
FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "file:http:https",
    # libcurl would look for a .netrc there, git for an ignore file.
    "HOME": "/nonexistent",
    "LC_ALL": "C",
}
CONFIG = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "credential.helper": "",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    # A link in a hostile tree must not lead our own writing out of it: it becomes a small file that names its target.
    "core.symlinks": "false",
    "core.autocrlf": "false",
    # A clone is scratch, the remote keeps its own durability: 9 ms -> 6 ms a commit.
    "core.fsync": "none",
    "filter.lfs.smudge": "",
    "filter.lfs.clean": "",
    "filter.lfs.process": "",
    "filter.lfs.required": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    # An extra header would follow a redirect to another host.
    "http.followRedirects": "false",
    "fetch.fsckObjects": "true",
    # Harmless flaws of old histories, which would make a clone impossible.
    "fetch.fsck.zeroPaddedFilemode": "ignore",
    "fetch.fsck.badTimezone": "ignore",
    "fetch.fsck.missingSpaceBeforeDate": "ignore",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "push.recurseSubmodules": "no",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "init.defaultBranch": "main",
    "init.templateDir": "",
}
NO_PROXY = "127.0.0.1,localhost,::1"
LOOPBACK = re.compile(r"\A(127(\.\d{1,3}){3}|localhost|::1)\Z")
CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")
UNPRINTABLE = re.compile(r"[^\x20-\x7e\n]")


def header_of(token: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


def token_config(url: str, token: str) -> dict[str, str]:
    """Send the token to the host of `url` and to no other. Not for folders, which ask for none."""
    parts = urlsplit(url)
    if not token or parts.scheme not in ("http", "https"):
        return {}
    if parts.scheme == "http" and not LOOPBACK.match(parts.hostname or ""):
        raise OperatorError("a token is not sent over plain http", hint="use the https address of the server")
    return {f"http.{parts.scheme}://{parts.netloc}/.extraHeader": header_of(token)}


def _environment(folder: Path, extra: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment["no_proxy"] = ",".join(filter(None, (os.environ.get("no_proxy", os.environ.get("NO_PROXY")), NO_PROXY)))
    # A folder that is no repository must not make git take the one around it.
    environment |= {**FIXED, "GIT_CEILING_DIRECTORIES": str(folder.parent), **extra}
    settings = {**CONFIG, **config}
    environment["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (key, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    return environment


def scrub(text: str, token: str = "") -> str:
    """Git's words without secrets and without control codes, the end of them when they are long."""
    if token:
        for secret in (header_of(token).rsplit(" ", 1)[1], token):
            text = text.replace(secret, "***")
    text = UNPRINTABLE.sub("?", CREDENTIALS_IN_URL.sub("", text.replace("\r", "\n"))).strip()
    return text if len(text) <= MAX_ERROR else "..." + text[-MAX_ERROR:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The whole group: git's helpers hold the pipes open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


@dataclass(frozen=True, slots=True)
class Ran:
    """A git command that came to its end."""

    verb: str
    code: int
    out: bytes
    error: str

    @property
    def text(self) -> str:
        """What it printed. Names of files can be any bytes; ours are ASCII, so no foreign one can become ours."""
        return self.out.decode("utf-8", "backslashreplace")

    def failed(self, what: str = "") -> GitError:
        said = self.error or f"exit code {self.code}"
        return GitError(f"git {self.verb} failed{f' ({what})' if what else ''}: {said}")

    def or_raise(self, what: str = "") -> Ran:
        if self.code != 0:
            raise self.failed(what)
        return self


def run(
    folder: Path,
    arguments: Sequence[str],
    *,
    given: bytes = b"",
    extra: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    token: str = "",
    deadline_s: float = LOCAL_S,
) -> Ran:
    verb = arguments[0]
    try:
        process = subprocess.Popen(
            ("git", *arguments),
            cwd=folder,
            env=_environment(folder, extra or {}, config or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise GitError(f"there is no folder {folder}") from error
        raise OperatorError("git is not installed", hint="install git 2.31 or newer") from error
    try:
        out, complaint = process.communicate(given, timeout=deadline_s)
    except subprocess.TimeoutExpired as error:
        _kill(process)
        raise GitError(f"git {verb} did not end within {deadline_s:g} s", hint="try again later") from error
    except BaseException:
        _kill(process)
        raise
    return Ran(verb, process.returncode, out, scrub(complaint.decode("utf-8", "replace"), token))
