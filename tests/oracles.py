"""The real programs that tests compare with; a test whose oracle is missing skips with the reason, and fails in CI.

CI sets BLKTWIN_REQUIRE_ORACLES=1: there a missing oracle is a fault of the set-up, not of the machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec

import pytest

FIO_VERSION = "fio-3.33"


def oracles_required() -> bool:
    """Say whether a missing oracle is a failure (CI) rather than a skip."""
    return os.environ.get("BLKTWIN_REQUIRE_ORACLES") == "1"


def unavailable(reason: str) -> NoReturn:
    """Skip the running test with a reason, or fail it where oracles are required."""
    if oracles_required():
        pytest.fail(f"oracle required here: {reason}", pytrace=False)
    pytest.skip(reason)


def require_tool(name: str) -> str:
    """Return the path of a real program; skip or fail the test when it is not installed."""
    path = shutil.which(name)
    if path is None:
        unavailable(f"{name} is not installed")
    return path


def require_fio() -> str:
    """Return the path of the fio whose output the tests know (3.33); skip or fail the test otherwise."""
    path = require_tool("fio")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if version != FIO_VERSION:
        unavailable(f"{path} is {version}; the tests know {FIO_VERSION}")
    return path


P = ParamSpec("P")


def against_the_clock(test: Callable[P, None]) -> Callable[P, None]:
    """Let a test that compares with a real program's timing be right once in four: a busy machine makes it late."""

    @wraps(test)
    def patient(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(3):
            try:
                test(*args, **kwargs)
            except AssertionError:
                continue
            return
        test(*args, **kwargs)

    return patient
