"""What was launched is the variant: each kernel comes from its text, and no case went another way (B-46, E43)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from bot.guardrails.hearing import Hearing, reject
from bot.model.ids import Digest
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile
from bot.model.verdict import Finding

NAME = "provenance"


def _texts(files: Iterable[SourceFile]) -> set[Digest | None]:
    return {hashlib.sha256(file.text.encode()).hexdigest() for file in files}


def _launched(measurement: Measurement) -> set[Digest | None]:
    return {launch.source_digest for result in measurement.cases for launch in result.launches}


def provenance(hearing: Hearing) -> list[Finding]:
    ours = _texts(hearing.variant.files)
    # Kernels of files that no variant may change are launched by v0 too.
    known = ours | (_launched(hearing.baseline) - _texts(hearing.sources))
    before = {result.case: result.launches for result in hearing.baseline.cases}
    findings = []
    for result in hearing.candidate.cases:
        strange = next((launch for launch in result.launches if launch.source_digest not in known), None)
        if strange is not None:
            message = f"{result.case} launched {strange.kernel} from a text that is neither the variant's nor v0's own"
            findings.append(reject(NAME, f"{message} ({strange.source_file})", result.case))
        if before.get(result.case) and not result.launches:
            message = f"{result.case} launched no kernel at all, v0 launches {len(before[result.case])}"
            findings.append(reject(NAME, message, result.case))
    return findings
