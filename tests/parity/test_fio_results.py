"""The same thousands of samples, compiled and interpreted, print the same output in every format."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "fio_sample.py"
WHERE = "import blktwin.fio.stats as s; print(s.__file__)"


def _python(*args: str, path: str = "") -> str:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if path:
        env["PYTHONPATH"] = path
    done = subprocess.run([sys.executable, *args], env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.compiled
def test_same_bytes_in_every_format() -> None:
    """Statistics and renderers: compiled equals interpreted, to the byte."""
    try:
        importlib.metadata.version("blktwin")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("blktwin is not installed (make test installs it)")
    if _python("-c", WHERE).strip().endswith(".py"):
        pytest.skip("the installed blktwin is not compiled")
    compiled = _python(str(SAMPLE))
    assert compiled.count('"fio version"') == 4
    assert compiled == _python(str(SAMPLE), path=str(ROOT / "src"))
