"""Lists of launch numbers that end at tiles of 128 x 128 go on: wider tiles for one sum, a fourth step for several."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.engine.transforms import further_ahead, longer_lists
from tests.engine.described import PLAYED, TEXT
from tests.engine.library import changes, interpret


def wider(text: str) -> str | None:
    found = longer_lists.rewrite(text)
    return found.text if found is not None else None


def behind(comment: str, columns: int, stages: str) -> str:
    """What comes behind the list of TEXT."""
    return f"""    # {comment}
    + [
        triton.Config(
            {{"BLOCK_M": 128, "BLOCK_N": {columns}, "BLOCK_K": 64, "GROUP": GS}},
            num_warps=8,
            num_stages=s,
            pre_hook=_blocks,
        )
        for GS in [1, 2]
        for s in [{stages}]
    ],
"""


MORE = behind(longer_lists.WIDER, 256, "3, 4")


def test_a_second_list_comes_behind_the_first_and_a_line_says_why() -> None:
    found = longer_lists.rewrite(TEXT)
    assert found is not None and found.kernels == ("_product_kernel",)
    assert found.text == TEXT.replace("    ],\n    key=", f"    ]\n{MORE}    key=")
    gone, new = changes(TEXT, found.text)
    assert not gone and "        for GS in [1, 2]" in new and "        for GS in [1, 2]  # 1 is row by row." in TEXT


def test_it_says_that_tuning_takes_longer() -> None:
    found = longer_lists.rewrite(TEXT)
    assert found is not None
    assert "4 entries come behind the 32 that were there, so tuning takes longer" in found.why
    assert "1.022x and 1.034x over the passes of three sizes" in found.seen
    assert "One of 128 x 256" in found.why and "everal sums" not in found.why and "under way" not in found.why


def test_it_goes_on_once() -> None:
    after = wider(TEXT)
    assert after is not None and wider(after) is None and further_ahead.rewrite(after) is None


def test_it_makes_the_same_products(tmp_path: Path) -> None:
    after = wider(TEXT)
    assert after is not None
    interpret(tmp_path, PLAYED, before=TEXT, after=after)


OWN = "    pid_m, pid_n = _order(pid, M, N, BLOCK_M, BLOCK_N, GROUP)\n"
PROGRAM = f"    pid = tl.program_id(0)\n    b = tl.program_id(1)\n{OWN}"
COUNTED = 'triton.cdiv(M, META["BLOCK_M"]) * triton.cdiv(N, META["BLOCK_N"]),\n        B,'


def test_two_axes_of_the_grid_may_count_the_tiles() -> None:
    text = TEXT.replace(
        COUNTED, 'triton.cdiv(M, META["BLOCK_M"]),\n        triton.cdiv(N, META["BLOCK_N"]),\n        B,'
    )
    text = text.replace(
        PROGRAM, "    pid_m = tl.program_id(0)\n    pid_n = tl.program_id(1)\n    b = tl.program_id(2).to(tl.int32)\n"
    )
    assert wider(text) is not None
    assert wider(text.replace("tl.program_id(2)", "tl.program_id(1)")) is None, "b would be a column, of another tile"
    assert wider(text.replace("pid_n = tl.program_id(1)", "pid_n = tl.program_id(0)")) is None


def test_a_kernel_may_reckon_by_itself() -> None:
    lines = "    tiles = tl.cdiv(N, BLOCK_N)\n    pid_m = pid // tiles\n    pid_n = pid % tiles\n"
    assert OWN in TEXT and wider(TEXT.replace(OWN, lines)) is not None
    for of_another in ("N // BLOCK_N", "tl.cdiv(M, BLOCK_N)", "tl.cdiv(N, 128)", "tl.cdiv(K, BLOCK_N)", "GROUP"):
        assert wider(TEXT.replace(OWN, lines.replace("tl.cdiv(N, BLOCK_N)", of_another))) is None, of_another


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for BM in [64, 128]", "for BM in (128,)"),
        ('"BLOCK_N": BN,', '"BLOCK_N": 128,'),
        ("for s in [2, 3]", "for s in [1, 2, 3, 4]"),
        ("            num_warps=w,\n", "            num_warps=8,\n"),
        ("    acc = acc * scale\n", ""),
        ("acc = tl.dot(rows, w.load([k, col]), acc=acc)", "acc = tl.dot(rows, w.load([k, col]), acc)"),
        ("    row = pid_m * BLOCK_M\n", "    row = BLOCK_M * pid_m\n"),
        ('    nargs["y"].block_shape = [1, BLOCK_M,', '    nargs["y"].block_shape = [1, nargs["BLOCK_M"],'),
    ],
)
def test_what_may_be_said_in_another_way(before: str, after: str) -> None:
    assert before in TEXT
    text = TEXT.replace(before, after)
    for name in ("BN", "w"):
        if f": {name}," not in text and f"={name}," not in text:
            text = "\n".join(line for line in text.split("\n") if f"        for {name} in" not in line)
    found = wider(text)
    assert found is not None and '{"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": GS}' in found


LISTED = [
    ("for BM in [64, 128]", "for BM in [32, 64]", "its tiles are small"),
    ("for BM in [64, 128]", "for BM in [64, 128, 256]", "its tiles are tall already"),
    ("for BN in [128]", "for BN in [128, 256]", "its tiles are wide already"),
    ("for BN in [128]", "for BN in [64]", "nobody tried 128 x 128"),
    ("for BK in [64, 128]", "for BK in [32]", "steps are short"),
    ("for w in [4, 8]", "for w in [4]", "four warps have no room"),
    ("for w in [4, 8]", "for w in [4, 8] if BM < 128", "some are left out"),
    ("for w in [4, 8]", "for w in WARPS", "nobody can tell which"),
    ("for w in [4, 8]", "for w in [4, 8]\n        for _ in [1, 2]", "a clause gives nothing"),
    ("num_stages=s,", "num_stages=BK // 32,", "a step says how many are under way"),
    ("num_stages=s,\n", "num_stages=2,\n", "a clause gives nothing, and one number of steps is under way"),
    ("num_warps=w,", "num_warps=w,  # of a product", "something is said of the warps"),
    ("num_warps=w,", "num_warps=w,\n            num_ctas=2,", "a configuration says more"),
    ("            pre_hook=_blocks,\n", "", "nobody gives blocks a shape"),
    ("pre_hook=_blocks", "pre_hook=lambda nargs: _blocks(nargs)", "nobody knows the hook"),
    ("        triton.Config(", "        made(", "it is made in another way"),
    ('"GROUP": GS}', '"GROUP": GS, **MORE}', "nobody can tell which constants"),
    ('key=["N", "K"],', 'key=["N", "K"],\n    prune_configs_by={},', "it is pruned"),
    ('key=["N", "K"],', 'key=["N", "K"],\n    reset_to_zero=["y"],', "something is added to what was there"),
    ("def _blocks(nargs):", "@once\ndef _blocks(nargs):", "nobody looks into a decorator"),
    ('    nargs["v"].block', '    assert BLOCK_N <= 128\n    nargs["v"].block', "the hook asks for more"),
    ('    nargs["v"].block_shape = [BLOCK_N, BLOCK_K]\n', "", "a descriptor keeps its block"),
    ("[BLOCK_N, BLOCK_K]", "[2 * BLOCK_N, BLOCK_K]", "a block would have 512 rows"),
    ('    BLOCK_N = nargs["BLOCK_N"]\n', "", "a block has the module's own number"),
    ("@triton.autotune", "_blocks = others\n\n\n@triton.autotune", "the hook is another one later"),
    ("[BLOCK_N, BLOCK_K]", "[128, BLOCK_K]", "a block stays as small"),
    ("[BLOCK_N, BLOCK_K]", "blocks_of(nargs)", "nobody reads what makes its shape"),
    (
        "    GROUP: tl.constexpr,\n):",
        "    GROUP: tl.constexpr,\n    num_stages: tl.constexpr,\n):",
        "it reads its steps",
    ),
    ('BLOCK_N = nargs["BLOCK_N"]', 'BLOCK_N = min(128, nargs["BLOCK_N"])', "a block is no more than 128"),
]

LAUNCHED = [
    ("    return y\n", "    return y, _product_kernel.best_config\n", "somebody reads what was chosen"),
    ("    return y\n", "    run = _product_kernel\n    return y\n", "it has another name"),
    ("def product(", '__all__ = ["_product_kernel"]\n\n\ndef product(', "others may take it"),
    ("_product_kernel", "product_kernel", "it is public"),
    ('triton.cdiv(N, META["BLOCK_N"])', "triton.cdiv(N, 128)", "the grid counts by itself"),
    ('triton.cdiv(N, META["BLOCK_N"])', 'triton.cdiv(N + 1, META["BLOCK_N"])', "the grid counts another tensor"),
    ('triton.cdiv(N, META["BLOCK_N"])', '(N // META["BLOCK_N"])', "the last columns are left out"),
    ('triton.cdiv(N, META["BLOCK_N"])', 'triton.cdiv(N, META["BLOCK_N"] // 2)', "twice as many programs"),
    ('META["BLOCK_N"]),\n', 'META["BLOCK_N"]) * 2,\n', "twice as many programs"),
    ('META["BLOCK_N"]),\n        B,', 'META["BLOCK_N"]) * B,', "nobody knows how many programs"),
    ("        B,\n", '        B * META["GROUP"],\n', "the second axis is of the numbers as well"),
    ("    grid = lambda META: (", "    if K:\n        M = 4\n    grid = lambda META, more=1: (", "it is given more"),
    ("_product_kernel[grid](", "_product_kernel[(64, B)](", "the grid asks for no numbers"),
    ("Y, M, N, K, scale)", "Y, M, N + 1, K, scale)", "the kernel counts another tensor"),
    ("Y, M, N, K, scale)", "Y, *y.shape[1:], K, scale)", "nobody knows what it is told"),
    ("Y, M, N, K, scale)", "Y, M, N, K, scale, BLOCK_M=64)", "somebody says a number of the list"),
    (
        "    _product_kernel[grid](X, W, V, Y, M, N, K, scale)",
        "    for _ in range(2):\n        _product_kernel[grid](X, W, V, Y, M, N, K, scale)",
        "a launch in a loop nobody looks into",
    ),
]

SUM = "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)"
ADDED = "acc += tl.dot(rows, tl.trans(others))"
LOOP = "for k in range(0, K, BLOCK_K):"
SCALED = "    acc = acc * scale\n"

TILES = [
    ("import triton.language as tl\n", "import lang as tl\n", "nobody knows the language"),
    (SUM, f"{SUM}\n    acc2 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)", "two sums have no room"),
    (SUM, "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float16)", "it adds up in half precision"),
    (SUM, "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=kinds)", "nobody knows how it adds up"),
    (SUM, "acc = tl.zeros((BLOCK_M, 2 * BLOCK_N), dtype=tl.float32)", "the sum is twice as wide"),
    (SUM, "acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)", "the sides are the other way round"),
    (SUM, f"last = y.load([b, row, col])\n    {SUM}", "another tile is there meanwhile"),
    (SCALED, "    acc = acc * y.load([b, row, col])\n", "another tile is read behind the loops"),
    (SCALED, "    acc = acc * col\n", "a number of the tile is multiplied"),
    (SCALED, "    acc = acc * BLOCK_N\n", "the size is multiplied"),
    (SCALED, "    acc = acc * tl.load(scale + pid_n)\n", "a scale for each tile"),
    (SCALED, "    acc = acc / tl.sum(acc, axis=1)[:, None]\n", "columns of a tile are added up"),
    (SCALED, "    most = tl.max(acc, axis=1)\n", "columns of a tile are looked at together"),
    (SCALED, "    most = y.shape[1]\n", "a descriptor is asked for its size"),
    (SCALED, "    acc = acc * scale\n    acc = helper(acc)\n", "nobody knows what is called"),
    (SCALED, "    acc = acc * scale\n    more = random()\n", "nobody knows what is called"),
    (SCALED, "    acc = tl.trans(acc)\n    acc = tl.trans(acc) * acc\n", "it does more with the sum"),
    (SCALED, "    if scale != 1:\n        acc = acc * scale\n", "a branch nobody looks into"),
    (SCALED, "    scale = scale * BLOCK_N\n    acc = acc * scale\n", "the number is another one"),
    (SCALED, "    tl.static_assert(BLOCK_N <= 128)\n", "it asks for narrow tiles"),
    (SCALED, "    tl.atomic_add(x + pid_n, 1)\n", "it counts the tiles"),
    ("acc, [1, BLOCK_M, BLOCK_N]", "acc, [1, BLOCK_N, BLOCK_M]", "the tile is put into another shape"),
    ("y.store([b, row, col]", "y.store([b, row, pid_n * 128]", "it is stored in another place"),
    ("y.store([b, row, col]", "y.store([b, row, row]", "it is stored in another place"),
    ("y.store([b, row, col]", "y.store([pid_n, row, col]", "it is stored in another place"),
    ("y.store([b, row, col]", "y.store([b, row, 0]", "every tile is stored in one place"),
    ("col = pid_n * BLOCK_N", "col = pid_n * BLOCK_M", "columns are counted by rows"),
    ("col = pid_n * BLOCK_N", "col = pid_n * 128", "columns are counted by themselves"),
    ("col = pid_n * BLOCK_N", "col = (pid_n + 1) * BLOCK_N", "it begins one tile later"),
    ("col = pid_n * BLOCK_N", "col = pid_n * BLOCK_N\n    col = col + 1", "it begins one column later"),
    ("x.load([b, row, k]), [", "x.load([b, row, 0]), [", "it loads the first step each time"),
    ("w.load([k, col])", "w.load([k, col // 2])", "it loads other columns"),
    ("w.load([k, col])", "w.load([row, col])", "it loads other rows"),
    ("w.load([k, col])", "w.load([k, col]) * w.load([k, col])", "it multiplies something else"),
    ("w.load([k, col])", "tl.load(w + k)", "it loads without a descriptor"),
    (", w.load([k, col]), acc=acc)", ", w.load([k, col]))", "the sum is written over"),
    (", w.load([k, col]), acc=acc)", ", w.load([k, col]), acc=acc, out_dtype=tl.float16)", "it rounds"),
    (", acc=acc)", ", acc=acc, input_precision=HOW[BLOCK_N])", "it rounds by its width"),
    (
        f"{LOOP}\n        rows = x.load",
        f"acc = tl.trans(acc)\n    {LOOP}\n        rows = x.load",
        "sides change places",
    ),
    (ADDED, f"{ADDED}\n        {ADDED}", "two products a turn"),
    (ADDED, ADDED.replace("others))", "others), acc)"), "it adds the sum to itself"),
    (ADDED, "acc -= tl.dot(rows, tl.trans(others))", "it takes away"),
    (ADDED, f"{ADDED}\n        acc = acc * 0.5", "the sum becomes less each turn"),
    (ADDED, f"{ADDED}\n        y.store([b, row, col], tl.reshape(acc, [1, BLOCK_M, BLOCK_N]))", "stored each turn"),
    (ADDED, f"{ADDED}\n        pid_m = pid_m + 1", "the tile moves"),
    ("tl.trans(others)", "others", "it multiplies other sides"),
    (LOOP, "for k in range(0, col, BLOCK_K):", "it goes up to a diagonal"),
    (LOOP, "for k in range(row, K, BLOCK_K):", "it begins at the tile"),
    (LOOP, "for k in range(0, K, BLOCK_N):", "it goes by the width"),
    (LOOP, "for k in tl.range(0, K, BLOCK_K, num_stages=5):", "it says how many itself"),
    (LOOP, "K = K - 1\n    for k in range(0, K, BLOCK_K):", "the end moves"),
    (
        "    return pid % in_group % rows",
        "    tl.device_print('a', pid)\n    return pid % in_group % rows",
        "it prints",
    ),
    ("rows = tl.minimum(num_m - first, GROUP)", "rows = GROUP", "groups have no end"),
    ("in_group = GROUP * num_n", "in_group = GROUP * (N // BLOCK_N)", "the last columns are left out"),
    ("tl.minimum(num_m - first, GROUP)", "min(num_m - first, GROUP)", "a word of Python's, which may be another"),
    ("    num_n = tl.cdiv(N, BLOCK_N)\n", "    num_n = tl.cdiv(N, 128)\n", "columns are counted by themselves"),
]


@pytest.mark.parametrize(("before", "after", "why"), [*LISTED, *LAUNCHED, *TILES])
def test_left_alone(before: str, after: str, why: str) -> None:
    assert before in TEXT
    assert wider(TEXT.replace(before, after)) is None, why


def test_a_list_that_stands_elsewhere_is_left_alone() -> None:
    at, end = TEXT.index("    configs=[") + len("    configs="), TEXT.index("    key=[")
    listed = TEXT[at:end].rstrip(",\n ")
    text = TEXT[:at] + "CONFIGS,\n" + TEXT[end:]
    assert wider(text.replace("@triton.autotune", f"CONFIGS = {listed}\n\n\n@triton.autotune")) is None


def test_whoever_else_launches_it_may_count_by_himself() -> None:
    assert longer_lists.rewrite(TEXT, relied_on=["_others_kernel"], beside=["import _products_kernel"]) is not None
    assert longer_lists.rewrite(TEXT, relied_on=["_product_kernel"]) is None
    assert longer_lists.rewrite(TEXT, beside=["from .product import _product_kernel"]) is None


def test_every_launch_is_looked_at() -> None:
    again = TEXT[TEXT.index("def product(") :].replace("def product(", "def again(")
    assert wider(f"{TEXT}\n\n{again}") is not None
    assert wider(f"{TEXT}\n\n{again.replace('(M, META', '(M - 1, META')}") is None


def test_two_kernels_may_share_a_hook() -> None:
    at = TEXT.index("@triton.autotune")
    again = TEXT[at:].replace("_product_kernel", "_other_kernel").replace("def product(", "def other(")
    found = longer_lists.rewrite(f"{TEXT}\n\n{again}")
    assert found is not None and found.kernels == ("_product_kernel", "_other_kernel")
    assert "8 entries come behind the 64" in found.why


def test_left_alone_where_nothing_tunes_itself_or_nothing_can_be_read() -> None:
    assert wider(TEXT.replace("@triton.autotune", "@triton.heuristics")) is None
    assert wider("autotune pre_hook (") is None and not longer_lists.applies("")


# several sums


ONE = TEXT[TEXT.index("    acc = tl.zeros(") : TEXT.index("    kind = y.dtype\n")]
TWO = TEXT.replace(
    ONE,
    """    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    acc2 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        rows = tl.reshape(x.load([b, row, k]), [BLOCK_M, BLOCK_K])
        acc = tl.dot(rows, w.load([k, col]), acc=acc)
        acc2 = tl.dot(rows, tl.trans(v.load([col, k])), acc=acc2)

    acc = (acc + acc2) * scale
""",
)
FOURTH = behind(longer_lists.DEEPER, 128, "4")
TAKER = """

@triton.jit
def _other_kernel(x, w, y, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(x.load([0, k]), w.load([k, 0]), acc=acc)
    y.store([0, 0], acc)
"""
LAUNCH = """

def other(x, w, y, K, best):
    BLOCK_M = best.kwargs["BLOCK_M"]
    _other_kernel[(1,)](
        *(x, w, y, K),
        BLOCK_M=BLOCK_M,
        BLOCK_N=best.kwargs["BLOCK_N"],
        BLOCK_K=best.kwargs["BLOCK_K"],
        num_stages=best.num_stages,
    )
"""
TURN = "        acc = tl.dot(x.load([0, k]), w.load([k, 0]), acc=acc)\n"
READ = TWO.replace("    return y\n", "    return y, _product_kernel.best_config\n")
TAKEN = READ + TAKER + LAUNCH


def test_several_sums_leave_no_room_for_wider_tiles_but_for_a_fourth_step() -> None:
    found = longer_lists.rewrite(TWO)
    assert found is not None and found.kernels == ("_product_kernel",)
    assert found.text == TWO.replace("    ],\n    key=", f"    ]\n{FOURTH}    key=")
    assert "4 steps under way, where the list ends at 3. 2 entries come behind the 32" in found.why
    assert wider(found.text) is None


def test_a_fourth_step_makes_the_same_products(tmp_path: Path) -> None:
    after, two = wider(TWO), PLAYED.replace("+ 4 and len(wide) == 4", "+ 2 and len(wide) == 2")
    assert after is not None and two != PLAYED
    interpret(tmp_path, two, before=TWO, after=after)


def test_who_takes_what_was_chosen_may_have_no_more_to_load() -> None:
    assert wider(READ) is not None and wider(READ + TAKER) is not None and wider(TAKEN) is not None
    for read in (READ + TAKER, TAKEN):
        assert wider(read.replace(TURN, 2 * TURN)) is None, "four loads in a step, where the tuned kernel has three"
    heavy = (TAKER + LAUNCH).replace(TURN, 2 * TURN)
    assert wider(TWO + heavy) is not None, "it takes another's"
    assert wider(READ + heavy.replace("        num_stages=best.num_stages,\n", "")) is not None, "it takes no steps"
    tuned = TWO[TWO.index("@triton.autotune") : TWO.index("@triton.jit\ndef _product_kernel")]
    more = READ + TAKER.replace(TURN, 2 * TURN).replace("\n\n@triton.jit", f"\n\n{tuned}@triton.jit", 1)
    assert wider(more) is not None, "it has a list of its own"


HELPER = """

@triton.jit
def _turn(x, w, k, acc):
    acc = tl.dot(x.load([0, k]), w.load([k, 0]), acc=acc)
    return tl.dot(x.load([1, k]), w.load([k, 1]), acc=acc)
"""
TAKING = [
    (TURN, "        acc = _turn(x, w, k, acc)\n        acc = tl.dot(acc, acc, acc=acc)\n", "a helper loads"),
    ("    y.store([0, 0], acc)", "    y.store([0, 0], _turn(x, w, 0, acc))", "a helper loads behind the loop"),
    (TURN, f"{TURN}        acc = tl.dot(acc, w.gather(k, 0), acc=acc)\n", "it gathers"),
    (TURN, f"{TURN}        y.store([0, k], acc)\n", "it stores each turn"),
    ("range(0, K, BLOCK_K):\n        acc", "range(0, K, BLOCK_M):\n        acc", "its steps are twice as long"),
    ("range(0, K, BLOCK_K):\n        acc", "tl.range(0, K, BLOCK_K, num_stages=4):\n        acc", "it says how many"),
    ('BLOCK_K=best.kwargs["BLOCK_K"]', 'BLOCK_K=best.kwargs["BLOCK_M"]', "its steps are twice as long"),
    ('BLOCK_K=best.kwargs["BLOCK_K"]', "BLOCK_K=128", "its steps are twice as long"),
    ('BLOCK_M = best.kwargs["BLOCK_M"]', 'BLOCK_M = 2 * best.kwargs["BLOCK_M"]', "its tiles are twice as tall"),
    ("@triton.jit\ndef _other", "from theirs import _other_kernel\n\n\ndef _another", "nobody sees what it loads"),
    ("@triton.jit\ndef _other", "@triton.jit\n@theirs\ndef _other", "nobody looks into a decorator"),
    ("_other_kernel[(1,)](", "_other_kernel.fn[(1,)](", "it is launched in another way"),
    ("num_stages=best.num_stages,", "**best.all_kwargs(),", "nobody follows where the steps go"),
    ("num_stages=best.num_stages,", 'num_stages=getattr(best, "num_stages"),', "nobody follows where the steps go"),
    ("    _other_kernel[(", "    few = {2: 1, 3: 2}[best.num_stages]\n    _other_kernel[(", "it knows two and three"),
    ("y, _product_kernel.best_config", "y, _product_kernel.configs[-1]", "the last of the list is another one"),
    (
        "y, _product_kernel.best_config",
        "y, _product_kernel.best_config, len(_product_kernel.configs)",
        "it counts them",
    ),
    (
        "rows = tl.reshape(",
        "few = tl.load(scale + k) + tl.load(scale)\n        rows = tl.reshape(",
        "numbers are no blocks",
    ),
]


@pytest.mark.parametrize(("before", "after", "why"), TAKING)
def test_numbers_that_others_take(before: str, after: str, why: str) -> None:
    text = (
        TAKEN.replace(TURN, f"{TURN}{TURN}") if before == "rows = tl.reshape(" else TAKEN + HELPER.replace("dot", "sum")
    )
    assert before in text and wider(TAKEN + HELPER.replace("dot", "sum")) is not None
    assert wider(text.replace(before, after)) is None, why


def test_who_asks_what_was_chosen_is_asked_by_no_other_file() -> None:
    assert longer_lists.rewrite(READ, beside=["from .products import others"]) is not None
    assert longer_lists.rewrite(READ, beside=["from .products import product"]) is None
    private = READ.replace("def product(", "def _product(")
    assert longer_lists.rewrite(private, relied_on=["_product"]) is None
    assert longer_lists.rewrite(TWO, beside=["from .products import product"]) is not None, "it is told nothing"


def test_a_list_of_one_is_no_choice_and_a_kernel_runs_once() -> None:
    for text in (TEXT, TWO):
        one = text.replace("for BM in [64, 128]", "for BM in [128]").replace("[64, 128]", "[64]")
        one = one.replace("for GS in [1, 2]", "for GS in [1]").replace("for w in [4, 8]", "for w in [8]")
        assert wider(one.replace("for s in [2, 3]", "for s in [3]")) is None
        assert wider(one) is not None


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("for BM in [64, 128]", "for BM in [32, 64]", "its tiles are small"),
        ("for BN in [128]", "for BN in [128, 256]", "its tiles are wide already"),
        ("for BK in [64, 128]", "for BK in [32]", "steps are short"),
        ("for w in [4, 8]", "for w in [4]", "four warps have no room"),
        ("for s in [2, 3]", "for s in [2, 3, 4]", "four are under way"),
        ("for s in [2, 3]", "for s in [1, 2]", "fewer are under way on purpose"),
        ("acc2 = tl.dot(rows, tl.trans(v.load([col, k])), acc=acc2)", "acc2 += 1.0", "one sum of products"),
        ("acc2 = tl.dot(rows, tl.trans(v.load([col, k])), acc=acc2)", "acc += tl.dot(rows, rows)", "one sum, twice"),
        ("acc2 = tl.dot(rows, tl.trans(v.load([col, k])), acc=acc2)", "acc2 = tl.dot(rows, rows)", "added to nothing"),
        ("acc2 = tl.dot(rows, tl.trans(v.load([col, k])), acc=acc2)", "acc2 = tl.dot(acc, rows, acc=acc)", "a chain"),
        ("acc2 = tl.zeros((BLOCK_M, BLOCK_N)", "acc2 = tl.zeros((BLOCK_M, 16)", "the other one is small"),
        ("[BLOCK_N, BLOCK_K]", "blocks_of(nargs)", "nobody reads what makes a shape"),
        (
            "    GROUP: tl.constexpr,\n):",
            "    GROUP: tl.constexpr,\n    num_stages: tl.constexpr,\n):",
            "it reads its steps",
        ),
        ("range(0, K, BLOCK_K)", "tl.range(0, K, BLOCK_K, num_stages=2)", "it says how many itself"),
        ("range(0, K, BLOCK_K)", "range(0, K, 64)", "its step is its own"),
        ('key=["N", "K"],', 'key=["N", "K"],\n    prune_configs_by={},', "it is pruned"),
        ('BLOCK_N = nargs["BLOCK_N"]', 'BLOCK_N = min(128, nargs["BLOCK_N"])', "nobody reads the hook"),
    ],
)
def test_several_sums_left_alone(before: str, after: str, why: str) -> None:
    assert before in TWO
    assert wider(TWO.replace(before, after)) is None, why


@pytest.mark.parametrize("added", ["acc += tl.dot({})", "acc = tl.dot({}, acc)", "acc = acc + tl.dot({})"])
def test_a_product_may_be_added_in_other_ways(added: str) -> None:
    line = "acc = tl.dot(rows, w.load([k, col]), acc=acc)"
    assert line in TWO and wider(TWO.replace(line, added.format("rows, w.load([k, col])"))) is not None


def test_several_sums_that_another_file_launches() -> None:
    assert longer_lists.rewrite(TWO, relied_on=["_product_kernel"]) is None
    assert longer_lists.rewrite(TWO, beside=["from .product import _product_kernel"]) is None


def test_one_sum_and_several_in_a_file() -> None:
    at = TWO.index("@triton.autotune")
    again = TWO[at:].replace("_product_kernel", "_other_kernel").replace("def product(", "def other(")
    found = longer_lists.rewrite(f"{TEXT}\n\n{again}")
    assert found is not None and found.kernels == ("_product_kernel", "_other_kernel")
    assert MORE.rstrip() in found.text and FOURTH.rstrip() in found.text
    assert "6 entries come behind the 64" in found.why
    assert "One of 128 x 256" in found.why and "Several sums leave no room for wider ones" in found.why
