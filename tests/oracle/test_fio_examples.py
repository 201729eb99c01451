"""The job files that fio ships (package fio-examples; not part of this project) read as fio reads them.

They are looked for where Debian puts them, or in the folder that BLKTWIN_FIO_EXAMPLES names (.ci/run unpacks the
package into build/ for that); without them these tests say so and skip, and CI fails.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from oracles import require_fio, unavailable

from blktwin.errors import ConfigError
from blktwin.fio.jobfile import load
from blktwin.fio.showcmd import render

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

FOLDER = Path(os.environ.get("BLKTWIN_FIO_EXAMPLES", "/usr/share/doc/fio/examples"))
ENV = {"PATH": os.environ.get("PATH", "")}
RUNNABLE = {
    "aio-read": 4,
    "fio-seq-read": 1,
    "fsx": 1,
    "iometer-file-access-server": 1,
    "jesd219": 4,
    "numa": 2,
    "null": 1,
    "rand-zones": 1,
    "ssd-test": 4,
    "tiobench-example": 16,
    "zipf": 1,
}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Give fio's job files."""
    found = sorted(FOLDER.glob("*.fio"))
    if not found:
        unavailable("fio's own job files are not installed (BLKTWIN_FIO_EXAMPLES names their folder)")
    return found


def attempt(path: Path) -> tuple[str, str]:
    """Give our --showcmd and "", or "" and the error."""
    try:
        return render([str(path)], env=ENV), ""
    except ConfigError as error:
        return "", str(error)


def test_showcmd(files: list[Path]) -> None:
    """What fio can show we show alike; what it rejects we reject, with one line that names the file."""
    shown = 0
    for path in files:
        run = subprocess.run([require_fio(), "--showcmd", str(path)], env=ENV, capture_output=True, text=True)
        ours, error = attempt(path)
        if not run.stderr:
            assert (ours, error) == (run.stdout, ""), path
            shown += 1
        assert ours or path.name in error
    assert shown > 50


def test_those_that_run(files: list[Path]) -> None:
    """Files that use only what is modelled load; every other one says in one line what stops it."""
    for path in files:
        if path.stem in RUNNABLE:
            assert len(load([str(path)], [], env={}).jobs) == RUNNABLE[path.stem]
        else:
            with pytest.raises(ConfigError, match=path.name):
                load([str(path)], [], env={})
