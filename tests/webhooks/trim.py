"""Makes examples.json.gz from the payloads that GitHub's own clients are tested with.

    npm pack @octokit/webhooks-examples@7.6.1 && tar xzf octokit-webhooks-examples-7.6.1.tgz
    python -m tests.webhooks.trim package/api.github.com/index.json

Nothing is left out but white space and the package's copies for older servers.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
COPY = HERE / "examples.json.gz"


def trim(published: bytes) -> bytes:
    """Event name -> its payloads. The same bytes for the same input: the time in the header is 0."""
    examples = {event["name"]: event["examples"] for event in json.loads(published)}
    compact = json.dumps(examples, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return gzip.compress(compact.encode(), compresslevel=9, mtime=0)


if __name__ == "__main__":
    COPY.write_bytes(trim(Path(sys.argv[1]).read_bytes()))
    print(f"{COPY}: {COPY.stat().st_size} bytes")
