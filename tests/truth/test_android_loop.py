"""Seed 1: examples/android-loop.toml gives the mail's 14 and 2.1 ms, and what its answers argued."""

from __future__ import annotations

from pathlib import Path

import pytest

from blktwin.lab.scenario import Outcome, Scenario
from blktwin.lab.scenario_text import render_text
from blktwin.lab.stack_file import load_stack

EXAMPLE = Path(__file__).parents[2] / "examples" / "android-loop.toml"
MS = 1_000_000


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Run all variants, half a second each."""
    made = Scenario(load_stack(str(EXAMPLE)), seeds=[1], runtime="500ms")
    made.run()
    return made


def outcome(scenario: Scenario, name: str) -> Outcome:
    """Return a variant's outcome."""
    (found,) = (one for one in scenario.outcomes if one.said.variant == name)
    assert not found.errors
    return found


@pytest.mark.parametrize(
    ("name", "d2c_ms", "percent"),
    [
        ("workqueue", 13.96, 5),
        ("sync_read", 2.10, 5),
        ("nowait_first", 2.10, 5),
        ("rfc_safe", 2.10, 5),
        ("workers spread", 2.09, 5),
        ("one worker", 9.69, 15),
    ],
)
def test_mean_d2c(scenario: Scenario, name: str, d2c_ms: float, percent: float) -> None:
    assert outcome(scenario, name).mean("d2c") == pytest.approx(d2c_ms * MS, rel=percent / 100)


def test_the_wait_for_a_worker_is_the_cause_and_not_the_device(scenario: Scenario) -> None:
    stage, share = outcome(scenario, "workqueue").dominant()
    assert stage == "W2X"
    assert share > 85
    assert outcome(scenario, "sync_read").dominant()[0] == "Q'2C'"


def test_what_the_list_argued(scenario: Scenario) -> None:
    """Spread workers need no patch; one worker is better than 32 packed ones, and better still on a fast CPU."""
    means = [
        outcome(scenario, name).mean("d2c") or 0 for name in ("workers spread", "one worker, fast CPU", "one worker")
    ]
    assert means == sorted(means)
    assert means[-1] < 0.8 * (outcome(scenario, "workqueue").mean("d2c") or 0)
    assert (outcome(scenario, "overutilized gate").mean("d2c") or 0) < 4 * MS


def test_the_caveats_are_printed(scenario: Scenario) -> None:
    text = " ".join(render_text(scenario).split())
    for part in ("neither hardware nor job file", "Other sets of parameters give the same pair", "overutilized gate"):
        assert part in text
    assert not scenario.has_missed()
