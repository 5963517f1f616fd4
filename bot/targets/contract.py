"""kernelwright.toml: what a repository allows, and where its kernels are when it is not laid out like Liger-Kernel.

[policy]
evidence = "static"

[target]
preset = "toml"

[target.kernels.rms_norm]
source = "lib/mykernels/norms/rms.py"
module = "mykernels.norms.rms"
source_root = "lib"
test = "tests/test_rms.py"
benchmark = "bench/rms.py"
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from bot.errors import UserError
from bot.model.ids import RepoPath
from bot.model.policy import RepoPolicy
from bot.model.reasons import ReasonCode
from bot.model.sweep import SweepPolicy
from bot.model.word import Word
from bot.targets.base import PYTEST, nearest
from bot.targets.sizes import SIZES

CONFIG = "kernelwright.toml"
TRUSTED = "the default branch"
"""Whose copy counts: what a pull request says of itself is nobody's policy."""
MAX_TEXT = 64 * 2**10

Argument = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"\A[^\x00-\x1f\x7f]+\Z")]
Command = Annotated[tuple[Argument, ...], Field(min_length=1, max_length=50)]
ModuleName = Annotated[str, StringConstraints(max_length=255, pattern=r"\A[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")]


def _judged(name: str) -> str:
    if name not in SIZES:
        shown = re.sub(r"[^\w.-]", "?", name, flags=re.ASCII)[:64]
        raise PydanticCustomError(UNJUDGED, "{shown} is not an operator that can be judged", {"shown": f"'{shown}'"})
    return name


UNJUDGED = "unjudged"
SUCH = "rms_norm, softmax or swiglu"
"""All of them would be more than a comment holds."""
OperatorName = Annotated[str, AfterValidator(_judged)]


def _pattern(kind: object) -> str:
    return next(str(part.pattern) for part in get_args(kind) if isinstance(part, StringConstraints))


ALLOWED = {
    _pattern(RepoPath): "a path below the top of the repository, like lib/mine, of letters, digits and . _ / + -; "
    "the top itself, `.`, is none: a package needs a folder of its own",
    _pattern(ModuleName): "a module's dotted name, like mine.norms.rms",
    _pattern(Argument): "one line of text that is not empty",
}
"""Pattern -> what it lets through, in words."""


class KernelTable(Word):
    """One kernel of a repository with a layout of its own."""

    source: RepoPath
    """The file with the op's autograd function."""
    module: ModuleName
    source_root: RepoPath
    test: RepoPath
    benchmark: RepoPath
    files: tuple[RepoPath, ...] = ()
    """More files that a variant may change."""
    test_command: Command = PYTEST
    style_command: Command | None = None

    @model_validator(mode="after")
    def _agree(self) -> KernelTable:
        if "{test}" not in self.test_command:
            raise ValueError("test_command must hold {test}, the place of the test file")
        expected = f"{self.source_root.rstrip('/')}/{self.module.replace('.', '/')}.py"
        if self.source != expected:
            raise ValueError(
                f"source must be source_root and then module, as a path: these two say {expected}, and source says "
                f"{self.source}"
            )
        return self


class TargetTable(Word):
    preset: Literal["auto", "liger", "toml"] = "auto"
    kernels: dict[OperatorName, KernelTable] = Field(default={})

    @model_validator(mode="after")
    def _known(self) -> TargetTable:
        if self.preset == "liger" and self.kernels:
            raise ValueError("preset liger finds its kernels by itself; remove [target.kernels] or the preset")
        if self.preset == "toml" and not self.kernels:
            raise ValueError("preset toml needs at least one [target.kernels.<name>]")
        return self


class RepoConfig(Word):
    policy: RepoPolicy = RepoPolicy()
    sweep: SweepPolicy = SweepPolicy()
    target: TargetTable = TargetTable()


def _bad(what: str, hint: str) -> UserError:
    return UserError(what, hint=hint, reason=ReasonCode.CONFIG_INVALID)


def _shown(place: tuple[Any, ...]) -> str:
    """A key as it was written, fit for a comment."""
    parts = [re.sub(r"[^\w.-]", "?", str(part), flags=re.ASCII)[:64] for part in place if part != "[key]"]
    return ".".join(parts) or "the whole file"


def _table(kind: type[BaseModel], place: tuple[Any, ...]) -> type[BaseModel]:
    """The type whose keys stand at a place."""
    for part in place:
        field = kind.model_fields.get(str(part))
        annotation = field.annotation if field else None
        if get_origin(annotation) is dict:
            annotation = get_args(annotation)[1]
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            kind = annotation
    return kind


def _mend(place: tuple[Any, ...]) -> str:
    """Only what has a default may be left out, and what keys say together is wrong in one of them."""
    keys = [part for part in place if isinstance(part, str) and part != "[key]"]
    field = _table(RepoConfig, tuple(keys[:-1])).model_fields.get(keys[-1]) if keys else None
    if field is None or (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
        return "correct the key that is wrong"
    return "correct the value" if field.is_required() else "correct the value, or remove the line to get the default"


def _lacks(section: tuple[Any, ...], errors: list[ErrorDetails]) -> UserError:
    """All that one section lacks, so that nobody learns it key by key."""
    keys = [str(one["loc"][-1]) for one in errors if one["type"] == "missing" and one["loc"][:-1] == section]
    return _bad(f"[{_shown(section)}] lacks: {', '.join(keys)}", "docs/install.md shows a whole section")


def _explain(error: ValidationError) -> UserError:
    errors = error.errors(include_url=False, include_input=False)
    first = errors[0]
    place = first["loc"]
    if first["type"] == "extra_forbidden":
        allowed = sorted(_table(RepoConfig, place[:-1]).model_fields)
        hint = f"{nearest(str(place[-1]), allowed)}allowed keys here: {', '.join(allowed)}"
        return _bad(f"unknown key `{_shown(place)}`", hint)
    if first["type"] == "missing":
        return _lacks(place[:-1], errors)
    if first["type"] == UNJUDGED:
        those = f"the {len(SIZES)} kernels that have a recipe, such as {SUCH}"
        return _bad(first["msg"], f"name the section after one of {those}; docs/kernels.md lists them all")
    if first["type"] == "string_pattern_mismatch" and (words := ALLOWED.get(first["ctx"]["pattern"])):
        return _bad(f"`{_shown(place)}` takes {words}", _mend(place))
    if first["type"] in ("model_type", "dict_type"):
        return _bad(f"`{_shown(place)}` is a section, and here it has a value", f"begin it with [{_shown(place)}]")
    reason = first["msg"].removeprefix("Value error, ")
    return _bad(f"`{_shown(place)}`: {reason}", _mend(place))


def read_config(text: str | bytes | None, of: str = "") -> RepoConfig:
    """The configuration; the defaults when there is no file. Anything not understood is refused, and named.

    `of`: the branch it was read from, to be told with what is wrong.
    """
    try:
        return _read(text)
    except UserError as error:
        place = f"{CONFIG} of {of}" if of else CONFIG
        raise UserError(f"{place}: {error}", hint=error.hint, reason=error.reason) from error


def _read(text: str | bytes | None) -> RepoConfig:
    if text is None:
        return RepoConfig()
    if len(text) > MAX_TEXT:
        raise _bad(f"{len(text)} characters, more than {MAX_TEXT}", "keep it to policy, sweep and target")
    try:
        found = tomllib.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
        plain = json.dumps(found, default=str)
    except UnicodeDecodeError as error:
        raise _bad("it is not UTF-8", "save it as UTF-8") from error
    except RecursionError as error:
        raise _bad("it is nested too deeply", "keep it to policy, sweep and target") from error
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        raise _bad(f"it is not TOML: {ascii(str(error))[1:-1]}", "see https://toml.io") from error
    try:
        # By way of JSON, since its strict reading takes a list for a tuple but never "yes" for true.
        return RepoConfig.model_validate_json(plain, strict=True)
    except ValidationError as error:
        raise _explain(error) from error
