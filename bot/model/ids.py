"""Identities. Each is a checked string, so a hostile one stops where it enters."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, StringConstraints

KernelName: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A[a-z][a-z0-9_]{0,63}\Z")]
CampaignId: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9_-]{0,95}\Z")]
OrderId: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9_-]{0,127}\Z")]
CommitSha: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{40}\Z")]
ShaPrefix: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{7,40}\Z")]
Digest: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{64}\Z")]
Login: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}(\[bot\])?\Z")]
RepoName: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}/[A-Za-z0-9._-]{1,100}\Z")
]
RefName: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A(?!-)[^\x00-\x20\x7f~^:?*\[\\]{1,255}\Z")]
RepoPath: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"\A(?!/)(?!.*(?:^|/)\.\.?(?:/|\Z))[A-Za-z0-9._/+-]{1,255}\Z")
]
VariantNumber: TypeAlias = Annotated[int, Field(ge=0, le=119)]
"""0 is the untouched source; v1, v2, ... are attempts. The same integer names every record of it."""


def variant_name(number: int) -> str:
    return f"v{number}"
