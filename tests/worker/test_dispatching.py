"""A library that has an op in several languages runs the one that is judged, and says what it would have run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bot.worker import __main__ as worker
from bot.worker import kept_kernels, looking
from bot.worker.contract import ContractError, parse, render
from bot.worker.contract.dispatching import TRITON, Dispatched, is_sound
from bot.worker.contract.looking import LookAnswer, LookRequest
from bot.worker.loading import load_and_ask, load_op
from tests.worker import languages
from tests.worker.languages import DISPATCHER, OP_NAME, PREFERRED

WORKER = Path(worker.__file__).parent
SAID = Dispatched(OP_NAME, PREFERRED, TRITON)


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has the library to itself."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "tiny"]:
        del sys.modules[name]


def taken() -> str:
    """What a dispatch takes from now on."""
    return str(sys.modules["tiny.backends"].resolve_impl(OP_NAME).impl_name)


def test_whoever_loads_the_op_runs_its_triton_kernel(tmp_path: Path) -> None:
    op = load_op(languages.subject(languages.write_tree(tmp_path)))
    backends = sys.modules["tiny.backends"]
    assert backends.ASKED == [], "to ask imports the other languages: only who is to report it asks"
    assert taken() == TRITON
    backends._IMPLS[OP_NAME][-1].forward = lambda x: x + 7
    assert op.apply(torch.zeros(2)).tolist() == [7.0, 7.0]


def test_what_would_have_run_is_asked_before(tmp_path: Path) -> None:
    _, told = load_and_ask(languages.subject(languages.write_tree(tmp_path)), (OP_NAME,))
    assert told == (SAID,)
    assert taken() == TRITON


def test_where_it_prefers_triton_both_are_the_same(tmp_path: Path) -> None:
    root = languages.write_tree(tmp_path, DISPATCHER.replace(f'"{PREFERRED}", 10', f'"{PREFERRED}", 90'))
    assert load_and_ask(languages.subject(root), (OP_NAME,))[1] == (Dispatched(OP_NAME, TRITON, TRITON),)


def test_of_an_op_that_it_does_not_know_nothing_is_said(tmp_path: Path) -> None:
    _, told = load_and_ask(languages.subject(languages.write_tree(tmp_path)), ("rope", OP_NAME))
    assert told == (SAID,)


def test_of_one_that_it_has_in_no_triton_nothing_is_said(tmp_path: Path) -> None:
    """Nobody knows what would be judged: its passes end with the library's own words."""
    only = DISPATCHER + f'\n\nregister_op("loss", "{PREFERRED}", 1)(len)\n'
    assert load_and_ask(languages.subject(languages.write_tree(tmp_path, only)), ("loss",))[1] == ()


BROKEN = {
    "raises": "def resolve_impl(op):\n    raise ValueError('no')\n",
    "leaves": "def resolve_impl(op):\n    raise SystemExit(0)\n",
    "is short of memory": "def resolve_impl(op):\n    raise MemoryError\n",
    "returns nothing": "def resolve_impl(op):\n    pass\n",
    "is no text": "class resolve_impl:\n    def __init__(self, op):\n        self.impl_name = 3\n",
    "says markup": "class resolve_impl:\n    def __init__(self, op):\n        self.impl_name = '@everyone `x`'\n",
    "says lines": "class resolve_impl:\n    def __init__(self, op):\n        self.impl_name = 'nvidia-cutedsl\\n'\n",
    "says too much": "class resolve_impl:\n    def __init__(self, op):\n        self.impl_name = 61 * 'x'\n",
    "says a text of its own": "class Name(str): ...\nclass resolve_impl:\n    def __init__(self, op):\n"
    "        self.impl_name = Name('x')\n",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_library_that_cannot_say_keeps_nobody_from_its_op(what: str, tmp_path: Path) -> None:
    root = languages.write_tree(tmp_path, f"{DISPATCHER}\n\n{BROKEN[what]}")
    _, told = load_and_ask(languages.subject(root), (OP_NAME,))
    assert told == ()
    assert sys.modules["tiny.backends"]._PINNED == TRITON


def test_nor_does_one_that_will_not_be_told(tmp_path: Path) -> None:
    """What it then runs by itself is told as it is."""
    text = f"{DISPATCHER}\n\ndef set_impl(name):\n    raise RuntimeError(name)\n"
    _, told = load_and_ask(languages.subject(languages.write_tree(tmp_path, text)), (OP_NAME,))
    assert told == (Dispatched(OP_NAME, PREFERRED, PREFERRED),)


@pytest.mark.parametrize("missing", ["set_impl", "resolve_impl"])
def test_something_else_by_that_name_is_left_alone(missing: str, tmp_path: Path) -> None:
    text = DISPATCHER + f"\n\n_resolve, {missing} = resolve_impl, None\n"
    text = text.replace("resolve_impl(op).forward", "_resolve(op).forward")
    assert load_and_ask(languages.subject(languages.write_tree(tmp_path, text)), (OP_NAME,))[1] == ()
    assert sys.modules["tiny.backends"]._PINNED is None


def test_a_module_that_raises_when_it_is_looked_at_is_left_alone(tmp_path: Path) -> None:
    text = DISPATCHER.replace("def set_impl", "def pin") + "\n\ndef __getattr__(name):\n    raise OSError(name)\n"
    assert load_and_ask(languages.subject(languages.write_tree(tmp_path, text)), (OP_NAME,))[1] == ()


def test_what_crosses_the_border_is_sixty_characters_of_a_name_at_most() -> None:
    assert is_sound(Dispatched("a" * 60, "nvidia-cutedsl", "x_1.2+rocm"))
    for name in ("a" * 61, "", "a b", "a`", "ä", "a\n", "<b>"):
        for field in ("op", "by_itself", "judged"):
            assert not is_sound(Dispatched(**{"op": "a", "by_itself": "b", "judged": "c", field: name})), (field, name)


def test_an_answer_without_it_is_one_of_a_library_that_has_no_dispatcher() -> None:
    assert parse(LookAnswer, '{"looks": []}').dispatched == ()
    assert parse(LookAnswer, render(LookAnswer((), dispatched=(SAID,)))).dispatched == (SAID,)
    with pytest.raises(ContractError):
        parse(LookAnswer, '{"looks": [], "dispatched": [{"op": "a", "by_itself": 3, "judged": "c"}]}')


def test_a_profiled_worker_says_it_beside_its_timelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(kept_kernels, "find_beside", lambda inputs: None)
    monkeypatch.setattr(looking, "_traced", lambda run: looking._Trace((), 0))
    request = LookRequest(
        "look", languages.subject(languages.write_tree(tmp_path)), (), (), "timeline", dispatches=(OP_NAME,)
    )
    answer: Any = worker._look(request, tmp_path)()
    assert answer == LookAnswer((), dispatched=(SAID,))


def test_there_is_one_place_where_an_op_is_loaded() -> None:
    """Checks, recordings, the wrapper's clock, profilers: none of them has an op that went round it."""
    assert {path.name for path in WORKER.glob("*.py") if "subject.module" in path.read_text()} == {"loading.py"}
