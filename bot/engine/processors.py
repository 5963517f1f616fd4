"""How sources say how many multiprocessors a GPU has."""

from __future__ import annotations

import libcst.matchers as m

PROPERTY = m.Attribute(attr=m.Name("multi_processor_count"))
ASKED = m.Call(
    func=m.Name(m.MatchIfTrue(lambda name: "multiprocessor_count" in name or name in ("num_sms", "sm_count")))
)
COUNT = PROPERTY | ASKED
