"""`/optimize <kernel> [options]`, read and said again."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from bot.commands import mistakes, names
from bot.commands.mistakes import Mistake
from bot.commands.options import BY_NAME, OPTIONS, Mend, Option
from bot.commands.quoting import bare, paste
from bot.commands.verbs import MEANT, WORDS
from bot.commands.words import Entry, entries, spelled, split
from bot.model.commands import CommandError, Optimize

Kernels = tuple[str, ...]
KERNEL = "kernel"


def _keyed(kernel: str) -> str:
    """A kernel named like a verb or an option is only reached by its key."""
    return f"{KERNEL}={kernel}" if kernel in WORDS or kernel in BY_NAME else kernel


def _line(said: Sequence[Entry], entry: Entry, *better: str) -> str:
    """The whole command again with one entry said better."""
    return paste(["/optimize", *(word for one in said for word in (better if one is entry else one.words))])


def _option_with(value: str) -> Option | None:
    """The option that has this value, for people who leave its name out."""
    for option in OPTIONS:
        if option.closed:
            try:
                option.read(value, lambda better: "")
            except Mistake:
                continue
            return option
    return None


def _nearest_value(word: str) -> str:
    """`autonomus` -> `mode=autonomous`"""
    closed = {value: option.name for option in OPTIONS for value in option.words}
    close = names.nearest(word, closed)
    return f"{closed[close[0]]}={close[0]}" if close else ""


def _missing(option: Option, line: str) -> CommandError:
    return mistakes.missing_value(option.name, option.values, line if option.default else "")


def _bare_option(option: Option, entry: Entry, said: Sequence[Entry]) -> Mistake:
    """`goal speed`: the next word is taken for the value in the line offered, not in what is done."""
    behind = said[said.index(entry) + 1 :][:1]
    if behind and behind[0].name is None:
        kept = [one for one in said if one is not behind[0]]
        return Mistake(_missing(option, _line(kept, entry, f"{option.name}={behind[0].value}")))
    return Mistake(_missing(option, _line(said, entry, f"{option.name}={option.default}")))


def _unquoted_target(entry: Entry, said: Sequence[Entry], before: Entry) -> Mistake:
    kept = [word for one in said[: said.index(before)] for word in one.words]
    rest = [word for one in said[said.index(entry) :] for word in one.words]
    line = paste(["/optimize", *kept, " ".join([*before.words, *rest])])
    return Mistake(mistakes.stray_word(entry.value, line))


def _stray(entry: Entry, said: Sequence[Entry], before: Entry | None) -> Mistake:
    """A word that belongs to nothing: an option without value, a value without option, a target without quotes."""
    if option := BY_NAME.get(spelled(entry.value)):
        return _bare_option(option, entry, said)
    if before is not None and before.name in ("target", "target_metric"):
        return _unquoted_target(entry, said, before)
    if verb := _verb(entry.value):
        rest = [word for one in said[said.index(entry) + 1 :] for word in one.words]
        return Mistake(mistakes.verb_behind(verb, paste(["/optimize", verb, *rest])))
    if option := _option_with(entry.value):
        better = f"{option.name}={bare(entry.value)}"
    else:
        better = _nearest_value(entry.value)
    return Mistake(mistakes.stray_word(entry.value, _line(said, entry, better) if better else "", better))


def _verb(word: str) -> str:
    """The verb that this word is, or that people say it for."""
    said = spelled(word)
    return said if said in WORDS else MEANT.get(said, "")


def _unknown_option(entry: Entry, said: Sequence[Entry]) -> Mistake:
    """A misspelt option, or `--autonomous`, `--speed=fast`: a value where an option stands."""
    typed = entry.words[0].partition("=")[0]
    options = [option.name for option in OPTIONS]
    if meant := _option_with(spelled(typed)):
        better = f"{meant.name}={spelled(typed)}"
        return Mistake(mistakes.unknown_option(typed, [better], options, _line(said, entry, better)))
    if not entry.value and spelled(typed) in WORDS:
        return Mistake(mistakes.verb_behind(spelled(typed), paste(["/optimize", spelled(typed)])))
    close = names.nearest(entry.name or "", [*BY_NAME, KERNEL])
    own = list(dict.fromkeys(BY_NAME[name].name if name in BY_NAME else name for name in close))
    line = _line(said, entry, f"{own[0]}={entry.value}") if own else ""
    return Mistake(mistakes.unknown_option(typed, own, options, line))


def _unknown_kernel(entry: Entry, said: Sequence[Entry], kernels: Kernels) -> Mistake:
    """A misspelt kernel, a misspelt verb where a verb could stand, or neither."""
    first = entry.name is None and entry is said[0]
    if first and (found := re.fullmatch(r"[vV]([0-9]{1,3})", bare(entry.value))):
        name = f"v{int(found[1])}"
        return Mistake(mistakes.variant_alone(name, [f"/optimize explain {name}", f"/optimize approve {name}"]))
    if first and len(said) > 1 and said[1].name is None and names.find(bare(said[1].value), kernels):
        return Mistake(mistakes.needless_word(entry.value, _line(said[1:], entry)))
    if first and (verb := MEANT.get(bare(entry.value).lower())):
        return Mistake(mistakes.unknown_verb(entry.value, (verb,), _line(said, entry, verb)))
    if joined := _two_words(entry, said, kernels):
        return joined
    close = names.nearest(entry.value, {*kernels, *(WORDS if first else ())})
    if close and close[0] not in kernels:
        return Mistake(mistakes.unknown_verb(entry.value, close, _line(said, entry, close[0])))
    better = _keyed(close[0]) if close else ""
    return Mistake(mistakes.unknown_kernel(entry.value, close, kernels, _line(said, entry, better)))


def _two_words(entry: Entry, said: Sequence[Entry], kernels: Kernels) -> Mistake | None:
    """A name written with a space in it."""
    behind = said[said.index(entry) + 1 :][:1]
    if not behind or behind[0].name is not None or not behind[0].value:
        return None
    kernel = names.find(f"{bare(entry.value)}_{bare(behind[0].value)}", kernels)
    kept = [one for one in said if one is not behind[0]]
    line = _line(kept, entry, _keyed(kernel)) if kernel else ""
    return Mistake(mistakes.split_name((entry.value, behind[0].value), kernel, line)) if kernel else None


def _kernel(entry: Entry, said: Sequence[Entry], kernels: Kernels) -> str:
    if not entry.value.strip():
        raise Mistake(mistakes.no_kernel(kernels))
    found = names.find(bare(entry.value), kernels)
    if found is None:
        raise _unknown_kernel(entry, said, kernels)
    return found


def _named(entry: Entry, said: Sequence[Entry]) -> tuple[str, str]:
    option = BY_NAME.get(entry.name or "")
    if option is None:
        raise _unknown_option(entry, said)
    if not entry.value.strip():
        raise Mistake(_missing(option, _line(said, entry, f"{option.name}={option.default}")))
    return option.name, entry.value


def _gathered(said: Sequence[Entry], kernels: Kernels) -> dict[str, str]:
    """Each option once, by its own name, still as written. The first mistake from the left is the one answered."""
    given: dict[str, str] = {}
    before = None
    for entry in said:
        if entry.name is None and (KERNEL in given or _is_option(entry.value, kernels)):
            raise _stray(entry, said, before)
        is_kernel = entry.name in (None, KERNEL)
        name, value = (KERNEL, _kernel(entry, said, kernels)) if is_kernel else _named(entry, said)
        if name in given:
            raise Mistake(mistakes.twice(name))
        given[name] = value
        before = entry
    return given


def _is_option(word: str, kernels: Kernels) -> bool:
    return spelled(word) in BY_NAME and names.find(bare(word), kernels) is None


def _spoken(given: dict[str, str]) -> str:
    options = [f"{name}={value}" for name, value in given.items() if name != KERNEL]
    return paste(["/optimize", _keyed(given[KERNEL]), *options])


def _mend(given: dict[str, str], name: str) -> Mend:
    return lambda better: _spoken({**given, name: better})


def spoken(command: Optimize, **better: str) -> str:
    """The line that says this command, for pasting; what is default is left out."""
    given = {KERNEL: command.kernel}
    for option in OPTIONS:
        value = getattr(command, option.name)
        if value != Optimize.model_fields[option.name].default:
            given[option.name] = value.text if option.name == "target" else str(value)
    return _spoken(given | better)


def read(text: str, kernels: Collection[str]) -> Optimize:
    """The text behind `/optimize`; raises Mistake."""
    known = names.known(kernels)
    given = _gathered(entries(split(text)), known)
    if KERNEL not in given:
        raise Mistake(mistakes.no_kernel(known, split(text)))
    given = {KERNEL: given.pop(KERNEL)} | given
    values: dict[str, Any] = {
        name: BY_NAME[name].read(value, _mend(given, name)) for name, value in given.items() if name != KERNEL
    }
    return Optimize(kernel=given[KERNEL], **values)
