"""Loaded by a repository's own pytest: of the tests of a run it leaves this process its share, dealt out like cards, so
that neighbours, which cost about the same, go to different hands. What it says at the end lets its caller see that all
hands were dealt from the same pack."""

import hashlib
import os

VARIABLE = "KERNELWRIGHT_SHARE"
_said = []


def pytest_collection_modifyitems(config, items):
    number, hands = (int(part) for part in os.environ[VARIABLE].split("/"))
    names = "\n".join(item.nodeid for item in items)
    _said.append(f"{VARIABLE} {hashlib.sha256(names.encode('utf-8', 'replace')).hexdigest()[:16]} of {len(items)}")
    mine = items[number::hands]
    config.hook.pytest_deselected(items=[item for place, item in enumerate(items) if place % hands != number])
    items[:] = mine


def pytest_terminal_summary(terminalreporter):
    for line in _said:
        terminalreporter.write_line(line)
