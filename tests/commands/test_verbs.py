"""What can be said beside naming a kernel."""

from __future__ import annotations

import pytest

from bot.commands import grammar
from bot.model.commands import Approve, Cancel, CommandError, Help, ListKernels, Optimize, Reject, Status, Try

KERNELS = ("geglu", "rms_norm", "status")


def said(line: str) -> object:
    return grammar.parse(f"/optimize {line}", KERNELS)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("help", Help()),
        ("help approve", Help()),
        ("?", Help()),
        ("--help", Help()),
        ("-h", Help()),
        ("list", ListKernels()),
        ("LIST!", ListKernels()),
        ("status", Status()),
        ("cancel.", Cancel()),
        ("approve", Approve()),
        ("approve v3", Approve(variant=3)),
        ("approve `V3`", Approve(variant=3)),
        ("approve 3.", Approve(variant=3)),
        ("approve v0", Approve(variant=0)),
        ("approve v119", Approve(variant=119)),
        ("try 27DEBC3", Try(sha="27debc3")),
        ("reject", Reject()),
        ('reject it\'s not "better", is it?', Reject(reason='it\'s not "better", is it?')),
        ("reject\ttoo slow", Reject(reason="too slow")),
        ("reject 'too slow'", Reject(reason="too slow")),
        ("reject no \u200b\x07way", Reject(reason="no way")),
        ("reject <!-- secret --> no", Reject(reason="no")),
    ],
)
def test_verbs(line: str, command: object) -> None:
    assert said(line) == command


def test_the_word_may_be_followed_by_punctuation() -> None:
    assert grammar.parse("/optimize: rms_norm", KERNELS) == Optimize(kernel="rms_norm")
    assert grammar.parse("/optimize, status", KERNELS) == Status()


def test_every_verb_of_the_table_is_parsed_by_its_own_example() -> None:
    for verb in grammar.VERBS:
        command = grammar.parse(verb.example, KERNELS)
        assert not isinstance(command, CommandError) and command is not None and command.verb == verb.name
        assert verb.usage.startswith(f"/optimize {verb.name}") and verb.summary
