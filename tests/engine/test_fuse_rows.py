"""What torch does to rows in several launches becomes a kernel, and only that."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import pytest

from bot.engine.transforms import fuse_rows
from tests.engine.library import changes, interpret, sample

LOSS = '''"""A loss in the shape of Liger's fused_linear_jsd."""

import torch
import triton

CHUNKS = 2


def forward(student, teacher, temperature, dtype):
    found = []
    for i in range(CHUNKS):
        s, t = student[i], teacher[i]

        # what both say
        s = s / temperature
        t = t / temperature
        log_s = torch.log_softmax(s, dim=-1)
        log_t = torch.log_softmax(t, dim=-1)
        # before it is overwritten
        p = torch.softmax(s, dim=-1)
        log_s = log_s.contiguous()

        g, loss = torch.exp(log_s) - torch.exp(log_t), (log_s - log_t).sum()
        s = (g - p * g.sum(dim=-1, keepdim=True).broadcast_to(g.shape)) / temperature
        s = s.to(dtype)
        found += [s, log_s, log_t, p, loss]
    return found
'''
BACKWARD = """import torch
import triton
import triton.language as tl


class Op:
    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        if ctx.plain:
            return grad
        else:
            dot = (grad * y).sum(dim=-1, keepdim=True)
            out = y * (grad - dot)
        return out
"""


@lru_cache
def fused(text: str) -> str | None:
    found = fuse_rows.rewrite(text)
    return found.text if found is not None else None


def called(text: str | None) -> list[str]:
    """The lines that call what was added."""
    assert text is not None
    ast.parse(text)
    return [line.strip() for line in text.splitlines() if "_in_rows(" in line and "def " not in line]


def test_lines_that_need_each_other_become_a_kernel_and_the_others_one_of_their_own() -> None:
    after = fused(LOSS)
    assert called(after) == [
        "log_s, p = _log_s_in_rows(s, temperature)",
        "log_t = _log_t_in_rows(t, temperature)",
        "s = _s_in_rows(g, p, temperature, dtype)",
    ]
    assert after is not None and "import triton\nimport triton.language as tl\n" in after


def test_what_was_said_of_the_lines_stands_above_the_first_call() -> None:
    after = fused(LOSS)
    assert after is not None
    lines = after.splitlines()
    at = lines.index("        log_s, p = _log_s_in_rows(s, temperature)")
    said = ["", "        # what both say", "        # before it is overwritten", f"        # {fuse_rows.COMMENT}"]
    assert lines[at - 4 : at] == said


def test_in_a_branch_of_a_method_too_and_above_its_class() -> None:
    after = fused(BACKWARD)
    assert called(after) == ["out = _out_in_rows(y, grad)"]
    assert after is not None
    gone, _ = changes(BACKWARD, after)
    assert [line.strip() for line in gone] == ["dot = (grad * y).sum(dim=-1, keepdim=True)", "out = y * (grad - dot)"]
    names = [getattr(node, "name", "") for node in ast.parse(after).body[3:]]
    assert names == ["_rounded", fuse_rows.FITS, "_out_in_rows_kernel", "_out_in_rows", "Op"]


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import loss, loss_after, loss_anywhere, op, op_anywhere

torch.manual_seed(0)
for rows, cols in ((1, 1), (3, 7), (2, 64), (2, 4096), (1, 4097), (2, 9000)):
    student, teacher = torch.randn(2, rows, cols), 3 * torch.randn(2, rows, cols)
    for temperature in (1, 0.7, 2.5):
        with torch.no_grad():
            expected = loss.forward(student, teacher, temperature, torch.float32)
            for one in (loss_after, loss_anywhere):
                for found, wanted in zip(one.forward(student, teacher, temperature, torch.float32), expected):
                    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


class Saved:
    plain = False

    def __init__(self, y):
        self.saved_tensors = (y,)


for dtype in (torch.float32, torch.float16, torch.bfloat16):
    y = torch.softmax(torch.randn(2, 3, 5, 300), dim=-1).to(dtype)
    grad = torch.randn_like(y)
    with torch.no_grad():
        found, close = op_anywhere.Op.backward(Saved(y), grad), {torch.float32: 1e-6}.get(dtype, 2e-2)
    assert found.dtype is dtype
    exact = y.double() * (grad.double() - (grad.double() * y.double()).sum(-1, keepdim=True))
    torch.testing.assert_close(found.double(), exact, rtol=close, atol=close * 1e-2)

# a row whose one element is 1, as it is rounded: what is lost of it is lost in all that is made of it
y = torch.softmax(torch.tensor([[0.0, 9.0, 0.5], [12.0, 1.0, 0.0]]), dim=-1).half()
grad = torch.tensor([[3.0, 1.7, -2.0], [-0.3, 5.0, 1.0]]).half()
with torch.no_grad():
    assert torch.equal(op_anywhere.Op.backward(Saved(y), grad), op.Op.backward(Saved(y), grad))

strange = torch.randn(2, 3, 40)
strange[0, 0, 3], strange[0, 1, 5], strange[0, 2] = float("inf"), float("nan"), float("-inf")
strange[1, 0, 7] = float("-inf")
with torch.no_grad():
    wanted = loss.forward(strange, strange.flip(-1), 2.0, torch.float32)
    found = loss_anywhere.forward(strange, strange.flip(-1), 2.0, torch.float32)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
"""


def anywhere(text: str | None) -> str:
    """The kernels run, also where there is no GPU."""
    assert text is not None and text.count("and one.is_cuda\n") == 1
    return text.replace("and one.is_cuda\n", "\n").replace("torch.cuda.device(", "torch.device(")


def test_the_result_is_torchs_to_what_rounding_makes_and_where_nothing_is_a_number(tmp_path: Path) -> None:
    after, other = fused(LOSS), fused(BACKWARD)
    assert after is not None
    texts = {"loss": LOSS, "loss_after": after, "loss_anywhere": anywhere(after)}
    interpret(tmp_path, RUN, op=BACKWARD, op_anywhere=anywhere(other), **texts)


ELSE = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import loss_anywhere as after


class Launched(Exception):
    pass


class Kernel:
    def __getitem__(self, grid):
        raise Launched


after._s_in_rows_kernel = Kernel()


def is_launched(g, p, temperature=2.0, dtype=torch.float32):
    try:
        found = after._s_in_rows(g, p, temperature, dtype)
    except Launched:
        return True
    wanted = ((g - p * g.sum(dim=-1, keepdim=True)) / temperature).to(dtype)
    assert found.dtype is dtype and torch.equal(found, wanted)
    return False


g, p = torch.randn(3, 8), torch.randn(3, 8)
assert not is_launched(g, p)  # gradients may be recorded
with torch.no_grad():
    narrow = g[:, :1].contiguous(), p[:, :1].contiguous()
    for launched in ((g, p), (g, p, 3), (g.half(), p.half()), (g, p, 2.0, torch.bfloat16), (g[0], p[0]), narrow):
        assert is_launched(*launched), launched
    for plain in (
        (g.double(), p.double()),
        (g, p, 2.0, torch.float64),
        (g, p, torch.tensor(2.0)),
        (g, p, True),
        (g[:, ::2], p[:, ::2]),
        (g, p[:1]),
        (g, p.half()),
        (g[:0], p[:0]),
        (g[:, :0], p[:, :0]),
        (torch.nn.Parameter(g), torch.nn.Parameter(p)),
    ):
        assert not is_launched(*plain), plain
    torch.is_autocast_enabled = lambda: True
    assert is_launched(g, p)
    assert not is_launched(g.bfloat16(), p.bfloat16(), 2.0, torch.bfloat16)
"""


def test_what_is_no_plain_case_is_done_as_before(tmp_path: Path) -> None:
    after = fused(LOSS)
    assert after is not None
    interpret(tmp_path, ELSE, loss_anywhere=anywhere(after))


def test_it_is_done_once() -> None:
    after = fused(LOSS)
    assert after is not None and fused(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu", "cross_entropy", "layer_norm", "jsd"])
def test_ops_without_such_lines_are_left_alone(kernel: str) -> None:
    assert not fuse_rows.applies(sample(kernel))


SIMPLE = """import torch
import triton
import triton.language as tl


def forward(x, y, scale, others):
    for i in range(2):
        a = x * scale
        b = torch.exp(a)
        c = b - y * b.sum(dim=-1, keepdim=True)
        x = c
    return c
"""
SUM, LAST, FIRST = "b.sum(dim=-1, keepdim=True)", "    return c", "        a = x * scale"


def test_what_nobody_wants_below_is_not_stored() -> None:
    assert called(fused(SIMPLE)) == ["c = _c_in_rows(x, y, scale)"]


@pytest.mark.parametrize(
    ("why", "before", "after", "wanted"),
    [
        ("it is read below", "    return c", "    return c + a", "a, c"),
        ("it is read behind the loop, in a branch", LAST, f"    if others:\n        print(b)\n{LAST}", "b, c"),
        ("it is read in the next turn", FIRST, f"        print(b if i else 0)\n{FIRST}", "b, c"),
        ("the next turn begins with it", FIRST, "        a = (a if i else x)\n        a = a * scale", "a, c"),
        ("the loop asks for it", "for i in range(2):", "while a.any():", "a, c"),
        ("it has another value first", "        x = c", "        a = 1\n        x = c + a", "c"),
        ("a part of a pair", "        x = c", "        a, d = 1, 2\n        x = c + a", "c"),
        ("it is freed below", "        x = c", "        x = c\n        del b", "b, c"),
        ("it is freed between", "        c = b", "        del a\n        c = b", "c"),
    ],
)  # fmt: skip
def test_what_may_be_read_below_is_stored(why: str, before: str, after: str, wanted: str) -> None:
    assert before in SIMPLE
    assert called(fused(SIMPLE.replace(before, after, 1)))[0].partition(" = ")[0] == wanted, why


def test_a_tensor_is_freed_where_it_was_read_for_the_last_time() -> None:
    freed = LOSS.replace("        log_s = log_s", "        del t  # not needed\n        log_s = log_s")
    after = fused(
        freed.replace("t / temperature", "(t / temperature)")
        .replace("        t = (", "        u = (")
        .replace("(t, dim", "(u, dim")
    )
    assert after is not None
    lines = [line.strip() for line in after.splitlines()]
    at = lines.index("log_t = _log_t_in_rows(t, temperature)")
    assert lines[at + 1] == "del t  # not needed"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a sum of columns", SUM, "b.sum(dim=0, keepdim=True)"),
        ("a sum of another shape", SUM, "b.sum(dim=-1)"),
        ("a sum that is told otherwise", SUM, "b.sum(-1, True)"),
        ("a sum in another type", SUM, "b.sum(dim=-1, keepdim=True, dtype=torch.float64)"),
        ("an operator that is not read", "b - y *", "b - y **"),
        ("nothing of a whole row", f"b - y * {SUM}", "a - y * a"),
        ("a second name", f"b - y * {SUM}", "b"),
        ("a name that is taken", "y, scale", "mask, scale"),
        ("a name like one of a walk", "y, scale", "total_2, scale"),
        ("a helper that is there", "import torch\n", "import torch\n\n_c_in_rows = None\n"),
        ("a function in it", "    return c", "    return (lambda: c)()"),
        ("a list of turns", "    return c", "    return [c for _ in others]"),
        ("what may fail", "    return c", "    try:\n        return c\n    finally:\n        pass"),
        ("somebody else's name", "    for i", "    global c\n    for i"),
        ("a kernel's function", "def forward", "@triton.jit\ndef forward"),
        ("a kernel's words", "    for i", "    tl.static_assert(True)\n    for i"),
        ("no torch", "import torch\n", "import torch as th\n"),
        ("no Triton", "import triton\n", ""),
    ],
)  # fmt: skip
def test_lines_stay_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in SIMPLE
    text = SIMPLE.replace(before, after, 1)
    if before == "y, scale":
        text = text.replace("y *", f"{after.partition(',')[0]} *")
    assert fused(text) is None, why


@pytest.mark.parametrize(
    ("why", "before", "after", "found"),
    [
        ("another function", "torch.exp(a)", "others.exp(others)", "c = _c_in_rows(b, y)"),
        ("arithmetic of numbers", "x * scale", "x * (2 * 3)", "c = _c_in_rows(a, y)"),
        ("another index", "x * scale", "x[0] * scale", "c = _c_in_rows(a, y)"),
        ("a second name", "x * scale", "x", "c = _c_in_rows(a, y)"),
        ("a second name, without gaps", "x * scale", "x.contiguous()", "c = _c_in_rows(a, y)"),
        ("a second name, of a type", "x * scale", "x.to(scale)", "c = _c_in_rows(a, y)"),
        ("a row is wanted", "        c = b", f"        others += [{SUM}]\n        c = b", "c = _c_in_rows(b, y)"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_left_and_the_rest_is_not(why: str, before: str, after: str, found: str) -> None:
    assert before in SIMPLE
    assert called(fused(SIMPLE.replace(before, after, 1))) == [found], why


def test_a_comment_behind_a_line_is_not_lost() -> None:
    after = fused(SIMPLE.replace("x * scale\n", "x * scale  # larger\n"))
    assert after is None or "# larger" in after


def test_no_kernel_reads_what_another_has_made_of_it() -> None:
    """`x` is another one by the time that the second kernel would read it."""
    crossed = """import torch
import triton
import triton.language as tl


def forward(x, y, z):
    u = torch.softmax(z, dim=-1) - z.sum(dim=-1, keepdim=True) * z
    v = torch.softmax(x, dim=-1) - y.sum(dim=-1, keepdim=True) * y
    x = u - u.sum(dim=-1, keepdim=True)
    return u, v, x
"""
    assert fused(crossed) is None
    assert len(called(fused(crossed.replace("softmax(x", "softmax(y")))) == 2


WANTED = {
    "in another branch of a loop": """def forward(x, y, t):
    out = []
    for i in range(3):
        if i % 2 == 0:
            p = torch.softmax(x / t, dim=-1)
            g = p - y * p.sum(dim=-1, keepdim=True)
        else:
            g = p
        out.append(g)
    return out
""",
    "before a loop is left": """def forward(x, y, t):
    while True:
        p = torch.softmax(x / t, dim=-1)
        g = p - y * p.sum(dim=-1, keepdim=True)
        if g is not None:
            break
        p = 0
    return g, p
""",
    "before a turn is left": """def forward(x, y, t):
    out = []
    for i in range(3):
        if i:
            out.append(p)
        p = torch.softmax(x / t, dim=-1)
        g = p - y * p.sum(dim=-1, keepdim=True)
        if i == 0:
            continue
        p = 0
    return out, g
""",
    "where a failure is nobody's": """def forward(x, y, t):
    with suppress(ValueError):
        p = torch.softmax(x / t, dim=-1)
        g = p - y * p.sum(dim=-1, keepdim=True)
        int("k")
        p = 0
    return g, p
""",
    "where a part of it is given a value": """def forward(x, y, t):
    p = torch.softmax(x / t, dim=-1)
    g = p - y * p.sum(dim=-1, keepdim=True)
    p[0] = 0
    return g
""",
}
IMPORTED = "import torch\nimport triton\nimport triton.language as tl\n\n\n"


@pytest.mark.parametrize("why", WANTED)
def test_what_may_be_read_on_some_way_is_stored(why: str) -> None:
    assert called(fused(IMPORTED + WANTED[why])) == ["p, g = _p_in_rows(x, y, t)"]


PLAIN = "    b = a - y * a.sum(dim=-1, keepdim=True)"
LEFT = {
    "a shape of something else": f"{PLAIN}.broadcast_to(z.shape)",
    "a value that is overwritten": f"    b = a + z\n{PLAIN}",
    "a value that is freed": f"    d = a + z\n    del d\n{PLAIN}",
    "a tensor that says the type": "    b = (a - y * a.sum(dim=-1, keepdim=True)).to(y)",
    "one of its own that says the type": "    b = (a - y * a.sum(dim=-1, keepdim=True)).to(a)",
    "a reciprocal that torch rounds": "    b = a * (10 / a.sum(dim=-1, keepdim=True))",
    "no number": "    b = (a - y * a.sum(dim=-1, keepdim=True)) * True",
    "very much": PLAIN + " + a" * 400,
}


@pytest.mark.parametrize("why", LEFT)
def test_lines_that_need_more_than_a_kernel_is_given_stay(why: str) -> None:
    text = f"{IMPORTED}def forward(x, y, z):\n    a = x * 0.5\n{LEFT[why]}\n    return b\n"
    ast.parse(text)
    assert fused(text.replace(LEFT[why], PLAIN)) is not None
    after = fused(text)
    assert after is None, after


def test_much_that_is_the_same_is_read_in_no_time() -> None:
    doubled = "    x = x * x\n" * 40
    after = fused(f"{IMPORTED}def forward(x):\n    x = x - x.sum(dim=-1, keepdim=True)\n{doubled}    return x\n")
    assert after is None or len(called(after)) == 1


def test_a_name_that_was_freed_is_made_anew() -> None:
    freed = SIMPLE.replace("        c = b", "        del a\n        c = b")
    assert called(fused(freed.replace("        x = c", "        a = c * c\n        x = a"))) == [
        "c = _c_in_rows(x, y, scale)"
    ]


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a docstring that imports", "import triton\n", '"""\nimport triton\n"""\n'),
        ("an import below", "    return c\n", "    return c\n\n\nimport triton.testing\n"),
        ("another tl", "def forward", "tl = 7\n\n\ndef forward"),
        ("another torch", "(x, y,", "(torch, x, y,"),
        ("another type", "def forward", "type = 7\n\n\ndef forward"),
        ("a pointer's name", "y, scale", "x_ptr, scale"),
        ("a launch number's name", "y, scale", "num_warps, scale"),
    ],
)  # fmt: skip
def test_what_a_kernel_is_written_with_has_to_be_that(why: str, before: str, after: str) -> None:
    assert before in SIMPLE
    text = SIMPLE.replace(before, after, 1)
    if before == "y, scale":
        text = text.replace("y *", f"{after.partition(',')[0]} *")
    assert fused(text) is None, why


def test_the_ends_of_lines_and_strings_are_as_they_were() -> None:
    text = LOSS.replace("CHUNKS = 2", "CHUNKS = 2\nSAID = 'a\x0cb\u2028c'")
    after = fused(text.replace("\n", "\r\n"))
    assert after is not None and "a\x0cb\u2028c" in after
    assert "import triton\r\nimport triton.language as tl\r\n" in after


def test_two_functions_share_what_is_asked_of_tensors() -> None:
    other = SIMPLE[SIMPLE.index("\n\ndef") :].replace("def forward", "def other").replace(" c", " d")
    two = SIMPLE + other
    after = fused(two)
    assert called(after) == ["c = _c_in_rows(x, y, scale)", "d = _d_in_rows(x, y, scale)"]
    assert after is not None and after.count(f"def {fuse_rows.FITS}(") == 1


@pytest.mark.parametrize(
    ("said", "above", "added", "fuses"),
    [
        ("more", "pass", "more", True),
        ("more: torch.Tensor", "pass", "more", True),
        ("more: float", "pass", "more", False),
        ("more", "least = ctx.least(dim=-1, keepdim=True).values", "least", False),
        ("more", "least = ctx.least(dim=-1, keepdim=True)\n            least = more", "least", True),
    ],
)
def test_what_cannot_be_as_wide_as_the_rows_is_handed_to_no_kernel(
    said: str, above: str, added: str, fuses: bool
) -> None:
    """No call would fit a kernel that takes it for a tensor like the others."""
    text = BACKWARD.replace("(ctx, grad)", f"(ctx, grad, {said})").replace("(grad - dot)", f"(grad - dot) + {added}")
    text = text.replace("            dot =", f"            {above}\n            dot =")
    assert (fused(text) is not None) is fuses
