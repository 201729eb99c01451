"""Settings of every test: hypothesis profiles, golden files, and no skipped oracle in CI."""

from __future__ import annotations

import difflib
import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from oracles import oracles_required

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in a shell's background, where Ctrl-C is ignored; tests that send it mean a terminal's.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("default", max_examples=60, derandomize=True, deadline=None)
settings.register_profile(
    "slow", max_examples=1000, deadline=None, derandomize=True, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile("random", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("BLKTWIN_HYPOTHESIS", "default"))

GoldenCheck = Callable[[Path, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --bless."""
    parser.addoption("--bless", action="store_true", help="rewrite golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenCheck:
    """Give a function (path, text) that compares text with a stored file, or stores it under --bless."""
    bless: bool = request.config.getoption("--bless")

    def check(path: Path, text: str) -> None:
        if bless:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        want = path.read_text() if path.exists() else ""
        diff = difflib.unified_diff(want.splitlines(), text.splitlines(), str(path), "now", lineterm="")
        assert text == want, "\n".join(["differs from the golden file (make bless rewrites it)", *diff])

    return check


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of an oracle test into a failure where oracles are required."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and oracles_required() and item.get_closest_marker("oracle"):
        report.outcome = "failed"
        report.longrepr = f"an oracle test was skipped where oracles are required: {report.longrepr}"
    return report
