"""A variant is the full text of the target's files, with the idea that made it."""

from __future__ import annotations

import hashlib

from bot.model.ids import Digest, RepoPath, VariantNumber
from bot.model.word import Word


class SourceFile(Word):
    path: RepoPath
    text: str


def sources_digest(files: tuple[SourceFile, ...]) -> Digest:
    """One name for one content: paths and texts, each with its length so that none can run into the next."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda f: f.path):
        for part in (file.path.encode(), file.text.encode()):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


class Hypothesis(Word):
    """What should improve and why, written before it is tried."""

    title: str
    """One line, fit for a table cell and a commit subject."""
    why: str
    expected: str
    technique: str
    """The transform or parameter, by the name it has in its table."""
    references: tuple[str, ...] = ()
    """Earlier variants this builds on or avoids repeating."""


class Variant(Word):
    number: VariantNumber
    parent: VariantNumber
    files: tuple[SourceFile, ...]
    hypothesis: Hypothesis
    proposer: str
    """engine, human, or the name of an agent."""

    @property
    def digest(self) -> Digest:
        return sources_digest(self.files)


class Proposal(Word):
    """What a proposer hands back. It becomes a variant when it is given a number."""

    files: tuple[SourceFile, ...]
    hypothesis: Hypothesis
    proposer: str
