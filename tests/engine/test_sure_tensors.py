"""Whose device is asked beside a launch: a name that is a tensor whichever way the function takes."""

from __future__ import annotations

import pytest

from bot.engine import source, sure_tensors
from bot.engine.source import NotUnderstood
from tests.engine.library import HEAD

GIVEN = "_k[(n,)](x, BLOCK_SIZE=8)"


def found(body: str, parameters: str = "x, n") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    text = f"{HEAD}def run({parameters}):\n{lines}\n"
    (site,) = source.sites(source.parse(text), "_k")
    try:
        return sure_tensors.one_of(site)
    except NotUnderstood as error:
        assert "surely a tensor" in str(error)
        return ""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (f"m = x.shape[0]\n{GIVEN}", "x"),
        ("_k[(n,)](x, x.stride(0), BLOCK_SIZE=8)", "x"),
        (f"if n > 4 and x.shape[0]:\n    pass\n{GIVEN}", ""),
        (f"if x.shape[0] and n > 4:\n    pass\n{GIVEN}", "x"),
        (f"if n > 4:\n    m = x.shape[0]\n{GIVEN}", ""),
        (f"if n > 4:\n    m = x.shape[0]\n    {GIVEN}", "x"),
        (f"if n > 4:\n    m = x.shape[0]\nelse:\n    {GIVEN}", ""),
        (f"with guard(x.shape):\n    {GIVEN}", "x"),
        (f"with guard(n):\n    m = x.shape\n    {GIVEN}", "x"),
        (f"with guard(n):\n    m = x.shape\n{GIVEN}", ""),
        (f"with guard(n):\n    {GIVEN}\n    m = x.shape", ""),
        ("m = x.dtype\n_k[(n,)](*x, BLOCK_SIZE=8)", ""),
        (f"for m in range(n):\n    y = x.shape\n{GIVEN}", ""),
        (f"for m in x.shape:\n    y = m\n{GIVEN}", "x"),
        (f"try:\n    m = x.shape\nexcept AttributeError:\n    m = 1\n{GIVEN}", ""),
        (f"m = x.shape if n else 1\n{GIVEN}", ""),
        (f"m = 1 if x.shape else 2\n{GIVEN}", "x"),
        (f"m = lambda: x.shape\n{GIVEN}", ""),
        (f"m = [x.shape for _ in range(n)]\n{GIVEN}", ""),
        (f"def late():\n    return x.shape\n{GIVEN}", ""),
        (f"{GIVEN}\nm = x.shape", ""),
        (f"x.shape = n\n{GIVEN}", ""),
        (f"m = x.items\n{GIVEN}", ""),
    ],
)
def test_who_is_asked_on_every_way_to_the_launch(body: str, told: str) -> None:
    assert found(body) == told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("z = torch.empty(n)\n_k[(n,)](z, BLOCK_SIZE=8)", "z"),
        ("z = torch.is_grad_enabled()\n_k[(n,)](z, BLOCK_SIZE=8)", ""),
        ("z = torch.promote_types(n, n)\n_k[(n,)](z, BLOCK_SIZE=8)", ""),
        ("if n:\n    z = torch.empty(n)\nelse:\n    z = torch.zeros(n)\n_k[(n,)](z, BLOCK_SIZE=8)", "z"),
        ("if n:\n    z = torch.empty(n)\nelse:\n    z = None\n_k[(n,)](z, BLOCK_SIZE=8)", ""),
        ("z = torch.empty(n) if n else None\nm = z.shape\n_k[(n,)](z, BLOCK_SIZE=8)", ""),
        ("z = torch.empty(n)\nif n:\n    z, m = n\n_k[(n,)](z, BLOCK_SIZE=8)", ""),
    ],
)
def test_what_torch_makes_is_one_where_each_way_makes_one(body: str, told: str) -> None:
    assert found(body) == told


OTHER = "_k[(n,)](other(n), BLOCK_SIZE=8)"


@pytest.mark.parametrize(
    ("parameters", "body", "told"),
    [
        ("x: torch.Tensor, n", OTHER, "x"),
        ("x: torch.Tensor = None, n=1", OTHER, ""),
        ("x: list[torch.Tensor], n", OTHER, ""),
        ("x, n", f"m = x.numel()\n{OTHER}", "x"),
        ("x, n", f"m = x.dtype\n{OTHER}", ""),
        ("x, n", f"m = x.size\n{OTHER}", ""),
        ("ctx, n", f"m = ctx.shape\n{OTHER}", ""),
        ("self, n", f"m = self.shape\n{OTHER}", ""),
        ("x, n", f"m = x.shape\ndel x\n{OTHER}", ""),
        ("x, n", f"x = x.shape\n{OTHER}", ""),
        ("x, n", f"m = x.shape\nx = x.contiguous()\n{OTHER}", "x"),
        ("x, n", f"m = x.shape\nx, m = m\n{OTHER}", ""),
        ("x, n", f"m = x.shape\nif x is None:\n    m = 1\n{OTHER}", ""),
        ("x, n", f"m = x.shape\nif x is not None:\n    m = 1\n{OTHER}", ""),
    ],
)
def test_of_what_only_the_function_is_given_more_is_asked(parameters: str, body: str, told: str) -> None:
    assert found(body, parameters) == told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("m = x.shape\nz = torch.empty(n)\n_k[(n,)](z, x, BLOCK_SIZE=8)", "x"),
        ("z = torch.empty(n)\nx = prepared(x)\n_k[(n,)](x, x.stride(0), z, BLOCK_SIZE=8)", "z"),
        ("m = x.shape\nz = torch.empty(n)\n_k[(n,)](z, BLOCK_SIZE=8)", "x"),
        ("m = x.shape\nm = n.shape\n_k[(n,)](n, x, BLOCK_SIZE=8)", "n"),
        ("m = x.shape\nm = n.shape\n_k[(n,)](n, BLOCK_SIZE=8)", "n"),
    ],
)
def test_who_is_known_first_is_asked_and_best_whom_the_launch_is_given(body: str, told: str) -> None:
    assert found(body) == told


@pytest.mark.parametrize(
    ("body", "at"),
    [
        (f"m = x.shape\n{GIVEN}", -1),
        (f"m = x.shape\nif m:\n    x = x.contiguous()\n{GIVEN}", -1),
        (f"m = 1\nx = prepared(x)\nm = x.shape\n{GIVEN}", 1),
        (f"if n:\n    x = one(n)\nelse:\n    x = two(n)\nm = 1\nm = x.shape\n{GIVEN}", 2),
        (f"if n:\n    x = one(n)\nelse:\n    x = two(n)\n{GIVEN}", None),
        (f"m = x.shape\nif n:\n    x = one(n)\n{GIVEN}", None),
    ],
)
def test_from_where_it_is_known(body: str, at: int | None) -> None:
    text = HEAD + "def run(x, n):\n" + "\n".join(f"    {line}" for line in body.splitlines()) + "\n"
    (site,) = source.sites(source.parse(text), "_k")
    assert sure_tensors.known_from(site, "x") == at
