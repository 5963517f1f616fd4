"""Loaded by a repository's own pytest: says at the end which text of a module the tests had imported. An installed copy
that an import hook finds first, or a conftest that puts another folder in front, would pass for the winner."""

import contextlib
import hashlib
import os
import pathlib
import sys

VARIABLE = "KERNELWRIGHT_PROOF"


def pytest_terminal_summary(terminalreporter):
    module = sys.modules.get(os.environ[VARIABLE])
    place = getattr(module, "__file__", None)
    with contextlib.suppress(OSError, TypeError):  # a module without a file, or one that is gone, says nothing
        text = pathlib.Path(place).read_bytes()
        terminalreporter.write_line(f"{VARIABLE} {hashlib.sha256(text).hexdigest()}")
