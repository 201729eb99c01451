"""The compiled build and the interpreted source print the same bytes; and the compiled build really is compiled.

Compiled: the package that make test installs. Interpreted: the same source below src/, which never holds libraries.
"""

from __future__ import annotations

import importlib.metadata
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = runpy.run_path(str(ROOT / "setup.py"))

LATENCIES = """
from blktwin.fio.hist import LatencyStat
a, b = LatencyStat(), LatencyStat()
for i in range(20000):
    a.add(i * i * 7919 % 50_000_017)
    b.add(1 << (i % 45))
a.merge(b)
print(a.mean(), a.deviation(), a.percentiles([1.0, 50.0, 99.0, 99.99]), a.filled_bins())
"""

COMMANDS: dict[str, list[str]] = {
    "latencies": ["-c", LATENCIES],
    "devices": ["tests/closed_loop.py"],
    "jobs": ["tests/job_mix.py"],
    "goldens": ["tests/golden_runs.py"],
    "bfq": ["tests/bfq_runs.py"],
    "stages": ["tests/stage_runs.py"],
}
"""Arguments of python, run below the repository's root; each must print something and exit 0."""

IMPORT_ALL = """
import importlib, sys
for name in sys.argv[1:]:
    print(name, importlib.import_module(name).__file__)
"""


def _python(args: list[str], *, interpreted: bool) -> str:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if interpreted:
        env["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run([sys.executable, *args], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _module_files(*, interpreted: bool) -> dict[str, str]:
    names = [m.removeprefix("src/").removesuffix(".py").replace("/", ".") for m in SETUP["compiled_modules"]()]
    lines = _python(["-c", IMPORT_ALL, *names], interpreted=interpreted).splitlines()
    return dict(line.split(" ", 1) for line in lines)


@pytest.fixture(scope="module")
def compiled_build() -> None:
    """Skip when no compiled package can be here: not installed, or asked not to compile, or no compiler."""
    try:
        importlib.metadata.version("blktwin")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("blktwin is not installed (make test installs it)")
    if os.environ.get("BLKTWIN_COMPILE") == "0":
        pytest.skip("BLKTWIN_COMPILE=0")
    if missing := SETUP["missing_tool"]():
        pytest.skip(missing)


@pytest.mark.compiled
@pytest.mark.usefixtures("compiled_build")
def test_hot_path_is_compiled() -> None:
    """A wheel that silently fell back to plain Python would pass every other test, slowly."""
    files = _module_files(interpreted=False)
    assert files, "setup.py names no module to compile"
    assert {name: path for name, path in files.items() if path.endswith(".py")} == {}


def test_source_tree_is_interpreted() -> None:
    """A library beside the sources would make the parity test compare the compiled build with itself."""
    files = _module_files(interpreted=True)
    wrong = {n: p for n, p in files.items() if not (p.endswith(".py") and p.startswith(str(ROOT / "src")))}
    assert wrong == {}


@pytest.mark.compiled
@pytest.mark.usefixtures("compiled_build")
def test_two_builds_are_compared() -> None:
    """What a build says of itself differs; nothing else may."""
    tell = ["-m", "blktwin.buildinfo"]
    assert "(compiled)" in _python(tell, interpreted=False)
    assert "(interpreted" in _python(tell, interpreted=True)


@pytest.mark.compiled
@pytest.mark.usefixtures("compiled_build")
@pytest.mark.parametrize("name", COMMANDS)
def test_same_bytes(name: str) -> None:
    """One command, both builds, equal output."""
    compiled = _python(COMMANDS[name], interpreted=False)
    assert compiled, "a command that prints nothing proves nothing"
    assert compiled == _python(COMMANDS[name], interpreted=True)
