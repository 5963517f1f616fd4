"""GitHub's expressions: what our files say means here what it means there."""

from __future__ import annotations

from typing import Any

import pytest

from bot.errors import CorruptRecord
from bot.localhub.expressions import as_text, evaluate, fill, holds

KNOWN: dict[str, Any] = {
    "vars": {"KERNELWRIGHT_ENABLED": "true", "PYTHON": ""},
    "needs": {"decide": {"result": "success", "outputs": {"next": "measure", "count": "2"}}},
    "github": {"event": {"comment": {"body": "please /Optimize it", "user": {"type": "User"}}}, "sha": "abc"},
    "functions": {"success": lambda: True, "always": lambda: True},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("vars.KERNELWRIGHT_ENABLED == 'true'", True),
        ("vars.KERNELWRIGHT_ENABLED == 'TRUE'", True),
        ("vars.NOBODY_SET_IT == 'true'", False),
        ("vars.NOBODY_SET_IT == ''", True),
        ("vars.PYTHON || 'python3'", "python3"),
        ("vars.NOBODY.had.it || github.sha", "abc"),
        ("needs.decide.outputs.count > 0", True),
        ("needs.other.outputs.count > 0", False),
        ("needs['decide'].outputs.next != 'measure'", False),
        ("!(1 == 2) && 'yes' || 'no'", "yes"),
        ("false && 'yes' || 'no'", "no"),
        ("contains(github.event.comment.body, '/optimize')", True),
        ('contains(fromJSON(\'["measure", "push"]\'), needs.decide.outputs.next)', True),
        ("contains(fromJSON('[\"measured\"]'), needs.decide.outputs.next)", False),
        ("startsWith('sweep-1', 'Sweep-')", True),
        ("format('{0}/{1}', 'a', 2)", "a/2"),
        ('fromJSON(\'{"a": {"b": [1]}}\').a.b', [1]),
        ("toJSON(fromJSON('[1]'))", "[1]"),
        ("'it''s'", "it's"),
        ("null == 0", True),
        ("1 < 2 && 2 <= 2 && 3 >= 3 && -1 < 0.5", True),
    ],
)
def test_an_expression_means_what_it_means_on_github(text: str, value: object) -> None:
    assert evaluate(text, KNOWN) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "a.b",
        "(1",
        "nobody(1)",
        "vars.",
        "'open",
        "1 2",
        "fromJSON('{')",
        "fromJSON(vars.no)",
        "vars[",
        "`x`",
    ],
)
def test_what_is_no_expression_is_said_and_not_taken_for_empty(text: str) -> None:
    with pytest.raises(CorruptRecord):
        evaluate(text, KNOWN)


def test_holes_are_filled_and_a_lone_one_keeps_its_kind() -> None:
    assert fill("x-${{ github.sha }}-${{ vars.NOBODY }}", KNOWN) == "x-abc-"
    assert fill("${{ fromJSON('[1, 2]') }}", KNOWN) == [1, 2]
    assert fill("plain", KNOWN) == "plain"


def test_what_a_hole_brings_is_not_read_again() -> None:
    """Words of a stranger that look like a hole stay words."""
    known = KNOWN | {"inputs": {"campaign": "${{ github.sha }}"}}
    assert fill("x ${{ inputs.campaign }}", known) == "x ${{ github.sha }}"


def test_a_condition_asks_for_success_unless_it_says_otherwise() -> None:
    failed = KNOWN | {"functions": {"success": lambda: False, "always": lambda: True}}
    assert holds(None, KNOWN) and not holds(None, failed)
    assert holds("github.sha == 'abc'", KNOWN) and not holds("github.sha == 'abc'", failed)
    assert holds("always() && github.sha == 'abc'", failed)
    assert holds("${{ always() }}", failed)


def test_values_as_text() -> None:
    assert [as_text(value) for value in (None, True, False, 3, "x", [1], {"a": 1})] == [
        *("", "true", "false", "3", "x", "[1]", '{"a": 1}'),
    ]
