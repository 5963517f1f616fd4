"""The target's Python: where its standard library and its packages are, found out without running any of their code."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from pathlib import Path

from bot.errors import OperatorError
from bot.model.word import Word

PROBE_SECONDS = 30
NEEDED = ("torch", "triton", "numpy")

# -I and -P still run the .pth files of site-packages, and an editable install of a pull request is one; -S does not.
# It also leaves a virtual environment unnoticed, so pyvenv.cfg is read here.
_PROBE = """
import json, os, sys, sysconfig
base = os.path.abspath(sys.base_prefix)
home = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
config = os.path.join(home, "pyvenv.cfg")
venv = os.path.isfile(config)
shared = not venv
if venv:
    with open(config, encoding="utf-8") as file:
        shared = any(l.replace(" ", "").lower().startswith("include-system-site-packages=true") for l in file)
found = []
def add(scheme, prefix):
    paths = sysconfig.get_paths(scheme, {"base": prefix, "platbase": prefix, "installed_base": base})
    found.extend((paths["purelib"], paths["platlib"]))
if venv:
    add("posix_prefix", home)
if shared:
    add("posix_prefix", base)
    found.extend((os.path.join(base, "lib/python3/dist-packages"),
                  os.path.join(base, "local/lib/python%d.%d/dist-packages" % sys.version_info[:2])))
print(json.dumps({
    "executable": os.path.abspath(sys.executable),
    "version": "%d.%d.%d" % sys.version_info[:3],
    "roots": sorted({home, base}),
    "libraries": [path for path in dict.fromkeys(found) if os.path.isdir(path)],
}))
"""


class TargetPython(Word):
    executable: Path
    version: str
    roots: tuple[Path, ...]
    """Folders that a sandbox has to show for it to start."""
    libraries: tuple[Path, ...]
    """site-packages, to be put on the path by name."""

    def _version_of(self, package: str) -> str:
        """Told by the metadata that pip leaves; importing it would take two seconds and run code."""
        found = [path.name for library in self.libraries for path in library.glob(f"{package}-*.dist-info")]
        return found[0].removeprefix(f"{package}-").removesuffix(".dist-info") if found else ""

    @property
    def torch(self) -> str:
        return self._version_of("torch")

    @property
    def triton(self) -> str:
        return self._version_of("triton")


def _missing(python: TargetPython) -> list[str]:
    return [name for name in NEEDED if not any((library / name).is_dir() for library in python.libraries)]


@lru_cache(maxsize=8)
def look_at(python: str) -> TargetPython:
    """What is needed to start this Python in a suitcase, or an OperatorError that says what it lacks."""
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            env={"PATH": "/usr/bin:/bin"},
            check=True,
        )
        found = TargetPython.model_validate(json.loads(done.stdout), strict=False)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise OperatorError(
            f"{python} does not start: {type(error).__name__}",
            hint="name the Python that has torch and triton, as an absolute path",
        ) from error
    if missing := _missing(found):
        raise OperatorError(
            f"{python} has no {', '.join(missing)}",
            hint=f"install them for that Python: {python} -m pip install {' '.join(missing)}",
        )
    return found
