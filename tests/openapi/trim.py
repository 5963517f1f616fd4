"""Makes github.json.gz from GitHub's published OpenAPI description: the paths below, and all that they refer to.

    npm pack @octokit/openapi@23.0.2 && tar xzf octokit-openapi-23.0.2.tgz package/generated/api.github.com.json
    python -m tests.openapi.trim package/generated/api.github.com.json

Left out are words for people and examples; every schema stays as it was published.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COPY = Path(__file__).parent / "github.json.gz"
REPO = "/repos/{owner}/{repo}"
PATHS = (
    "/user",
    "/users/{username}",
    "/rate_limit",
    REPO,
    *(
        REPO + path
        for path in (
            "/actions/permissions/workflow",
            "/actions/runners",
            "/actions/runs",
            "/actions/runs/{run_id}",
            "/actions/runs/{run_id}/cancel",
            "/actions/runs/{run_id}/jobs",
            "/actions/workflows/{workflow_id}",
            "/actions/workflows/{workflow_id}/dispatches",
            "/actions/workflows/{workflow_id}/runs",
            "/branches/{branch}",
            "/branches/{branch}/protection",
            "/collaborators/{username}/permission",
            "/commits/{ref}",
            "/commits/{ref}/status",
            "/commits/{commit_sha}/pulls",
            "/compare/{basehead}",
            "/contents/{path}",
            "/dispatches",
            "/git/ref/{ref}",
            "/git/refs",
            "/issues",
            "/issues/comments/{comment_id}",
            "/issues/comments/{comment_id}/reactions",
            "/issues/comments/{comment_id}/reactions/{reaction_id}",
            "/issues/{issue_number}",
            "/issues/{issue_number}/comments",
            "/issues/{issue_number}/labels",
            "/pulls",
            "/pulls/{pull_number}",
            "/pulls/{pull_number}/commits",
            "/pulls/{pull_number}/files",
            "/pulls/{pull_number}/reviews",
            "/pulls/{pull_number}/reviews/{review_id}",
            "/rules/branches/{branch}",
            "/statuses/{sha}",
        )
    ),
)
WORDS = ("description", "summary", "example", "examples", "externalDocs", "x-github", "x-octokit", "tags")
REFERENCE = re.compile(r"#/components/(\w+)/([\w-]+)")


def bare(part: Any, of_names: bool = False) -> Any:
    """Without words for people. `of_names`: the keys are names that somebody chose, such as a field `description`."""
    if isinstance(part, list):
        return [bare(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    return {
        name: bare(inner, of_names=name == "properties" and not of_names)
        for name, inner in part.items()
        if of_names or name not in WORDS
    }


def references(part: Any) -> Iterator[tuple[str, str]]:
    if isinstance(part, dict):
        for name, inner in part.items():
            found = REFERENCE.fullmatch(inner) if name == "$ref" and isinstance(inner, str) else None
            if found:
                yield found[1], found[2]
            else:
                yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def trim(published: dict[str, Any]) -> dict[str, Any]:
    paths = {path: bare(published["paths"][path]) for path in PATHS}
    always = [("schemas", "basic-error"), ("schemas", "validation-error"), ("schemas", "validation-error-simple")]
    components: dict[str, dict[str, Any]] = {}
    owed = [*references(paths), *always]
    while owed:
        kind, name = owed.pop()
        if name not in components.setdefault(kind, {}):
            components[kind][name] = bare(published["components"][kind][name])
            owed += references(components[kind][name])
    version = {name: published["info"][name] for name in ("title", "version", "license")}
    return {"openapi": published["openapi"], "info": version, "paths": paths, "components": components}


if __name__ == "__main__":
    text = json.dumps(trim(json.loads(Path(sys.argv[1]).read_bytes())), separators=(",", ":"), sort_keys=True)
    COPY.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    print(f"{COPY}: {len(PATHS)} paths, {len(text)} characters, {COPY.stat().st_size} bytes")
