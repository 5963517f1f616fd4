"""The one place that knows what time it is."""

from __future__ import annotations

import datetime


def utc_now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
