"""What a profiled worker does with pins, without a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bot.worker import looking
from bot.worker.contract import Call, Subject
from bot.worker.contract.looking import LookRequest
from tests.worker.test_tuning import Worker, launch


def test_what_is_pinned_is_tuned_neither_in_the_warm_up_nor_between_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    def passes(op: Worker, *_: Any) -> None:
        launch(op.kernel)

    monkeypatch.setattr(looking, "gpu_inputs", SimpleNamespace(drawn=lambda *_: {}, laid=lambda *_: None))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(looking, "run_pass", passes)
    monkeypatch.setattr(looking, "_marked", passes)
    op, call = Worker(fastest=256), Call("forward-4x8", "forward-4x8", "forward", (), ())
    subject = Subject("/cell/source", "pkg.ops.k", "k.py", ())
    looking.look_job(op, LookRequest("look", subject, (call,), (), "counters", pins=Worker(fastest=128).runs(7)))
    assert (op.clock.timed, op.launcher.blocks) == ([], [128] * (looking.WARM + 1))
