"""The options of `/optimize <kernel>`: one table that reads them and explains them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from bot.commands import target_metric
from bot.commands.mistakes import Mistake, bad_value, not_a_sha
from bot.commands.names import nearest
from bot.commands.quoting import bare
from bot.model.commands import (
    DEFAULT_VARIANTS,
    MOST_VARIANTS,
    CommandError,
    Goal,
    GpuChoice,
    Mode,
    Optimize,
    Scope,
    TargetMetric,
)

Mend: TypeAlias = Callable[[str], str]
"""A better value -> the whole command line with it, ready to paste."""
Read: TypeAlias = Callable[[str, Mend], Any]
"""A value as written -> the value meant; raises Mistake."""


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    values: str
    summary: str
    read: Read = field(repr=False)
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Its values, where they are a short list of words."""

    @property
    def closed(self) -> bool:
        return bool(self.words)

    @property
    def default(self) -> str:
        return str(Optimize.model_fields[self.name].default or "")


def _choice(name: str, kind: type[StrEnum], synonyms: Mapping[str, str]) -> Read:
    def read(value: str, mend: Mend) -> StrEnum:
        said = bare(value).lower().replace("_", "-")
        said = synonyms.get(said, said)
        if said in list(kind):
            return kind(said)
        close = nearest(said, [*kind, *synonyms])
        better = synonyms.get(close[0], close[0]) if close else ""
        why = f"`{name}` is one of {', '.join(f'`{one}`' for one in kind)}."
        raise Mistake(bad_value(name, value, why, better, mend(better) if better else ""))

    return read


def _read_count(value: str, mend: Mend) -> int:
    said = bare(value)
    number = int(said) if re.fullmatch(r"-?[0-9]{1,9}", said) else DEFAULT_VARIANTS
    better = min(max(number, 1), MOST_VARIANTS)
    if said.lstrip("0") != str(better):
        why = f"`max_variants` is a whole number from 1 to {MOST_VARIANTS}."
        raise Mistake(bad_value("max_variants", value, why, str(better), mend(str(better))))
    return better


def read_sha(value: str, mend: Mend) -> str:
    said = bare(value).lower()
    if not re.fullmatch(r"[0-9a-f]{7,40}", said):
        raise Mistake(not_a_sha(value))
    return said


def _read_target(value: str, mend: Mend) -> TargetMetric:
    found = target_metric.parse(value)
    if isinstance(found, CommandError):
        raise Mistake(found.model_copy(update={"paste": mend(found.paste) if found.paste else ""}))
    return found


_GOALS = {
    **dict.fromkeys(("fast", "faster", "latency", "throughput", "time"), "speed"),
    **dict.fromkeys(("mem", "footprint"), "memory"),
}
_SCOPES = {"fwd": "forward", "bwd": "backward", "all": "general", "both": "general", "full": "general"}
_GPUS = {
    **dict.fromkeys(("auto-detect", "any", "default"), "auto"),
    **dict.fromkeys(("a100", "sm-80", "sm80"), "ampere"),
    **dict.fromkeys(("h100", "h200", "gh200", "sm-90", "sm90"), "hopper"),
    **dict.fromkeys(("b200", "gb200", "sm-100", "sm100"), "blackwell"),
    **dict.fromkeys(("mi300", "mi300x", "mi300a", "mi325x", "gfx942"), "cdna3"),
}
_MODES = {"auto": "autonomous", "autonomously": "autonomous", "manual": "interactive"}

OPTIONS: tuple[Option, ...] = (
    Option(
        name="goal",
        values="speed, memory or balanced",
        summary="what counts as better",
        read=_choice("goal", Goal, _GOALS),
        words=tuple(Goal),
        aliases=("optimization_goal",),
    ),
    Option(
        name="scope",
        values="general, forward or backward",
        summary="which passes are scored",
        read=_choice("scope", Scope, _SCOPES),
        words=tuple(Scope),
    ),
    Option(
        name="gpu",
        values=", ".join(GpuChoice),
        summary="the GPU to optimise for",
        read=_choice("gpu", GpuChoice, _GPUS),
        words=tuple(GpuChoice),
        aliases=("target_gpu",),
    ),
    Option(
        name="mode",
        values="interactive or autonomous",
        summary="autonomous skips the questions about the profile and the winner",
        read=_choice("mode", Mode, _MODES),
        words=tuple(Mode),
        aliases=("autonomy",),
    ),
    Option(
        name="max_variants",
        values=f"1 to {MOST_VARIANTS}",
        summary="how many variants may be tried",
        read=_read_count,
    ),
    Option(
        name="target",
        values=f'"{target_metric.FORMS[0]}"',
        summary="stop as soon as this is reached",
        read=_read_target,
        aliases=("target_metric",),
    ),
    Option(
        name="sha",
        values="7 to 40 hexadecimal digits",
        summary="the head commit you looked at; needed on pull requests from forks",
        read=read_sha,
    ),
)


BY_NAME: Mapping[str, Option] = {name: option for option in OPTIONS for name in (option.name, *option.aliases)}
