"""Whatever a transform makes in any of these tests, what its author said beside the code is still there: the guardrail
refuses what loses a comment, and with it the idea."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from bot.engine.transforms import ACROSS_FILES, TRANSFORMS
from bot.engine.transforms.rewrite import FilesRewrite, Rewrite
from bot.guardrails.scope import lost_remarks

Text = str | Mapping[str, str]
Made = Rewrite | FilesRewrite | None
RULE = "(estimated for "
"""What a rule for launch numbers says of itself, in a text that a test hands over with one in it."""


def _texts(before: Text, made: Made) -> Iterator[tuple[str, str]]:
    if isinstance(made, Rewrite) and isinstance(before, str):
        yield before, made.text
    elif isinstance(made, FilesRewrite) and not isinstance(before, str):
        yield from ((before[path], text) for path, text in dict(made.texts).items())


@pytest.fixture(autouse=True)
def remarks_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    ours: set[str] = set()  # said by an earlier idea of the same test: the next one may take it back

    def watched(rewrite: Callable[..., Made]) -> Callable[..., Made]:
        def asked(before: Text, *rest: str, **only: str) -> Made:
            made = rewrite(before, *rest, **only)
            for was, now in _texts(before, made):
                ours.update(lost_remarks(now, was))
                lost = {one for one in lost_remarks(was, now) if one not in ours and RULE not in one}
                assert not lost, f"what somebody said is gone: {sorted(lost)}"
            return made

        return asked

    for transform in {**TRANSFORMS, **ACROSS_FILES}.values():
        monkeypatch.setattr(transform, "rewrite", watched(transform.rewrite))
