"""The stack's names: kernels, schedulers, tunables, each with its near match."""

from __future__ import annotations

import pytest

from blktwin.block.deadline import Deadline
from blktwin.block.rules import PRESET_NAMES
from blktwin.errors import UsageError
from blktwin.lab.stack import find_rules, make_elevator, set_tunable


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_is_found(name: str) -> None:
    assert find_rules(name).name == name


@pytest.mark.parametrize(("name", "hint"), [("6.19", "there are 5.10"), ("linux", "there are 5.10")])
def test_other_kernels(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"no rules for kernel '{name}'.*{hint}"):
        find_rules(name)


def test_elevators() -> None:
    assert make_elevator("none", "--scheduler") is None
    assert isinstance(make_elevator("mq-deadline", "--scheduler"), Deadline)
    for name in ("kyber",):
        with pytest.raises(UsageError, match=f"{name} is not modelled yet"):
            make_elevator(name, "--scheduler")
    with pytest.raises(UsageError, match=r"f.fio:3: ioscheduler: no scheduler 'nonee'; did you mean none"):
        make_elevator("nonee", "ioscheduler", "f.fio", 3)


def test_a_tunable_is_written() -> None:
    elevator = Deadline()
    set_tunable(elevator, "iosched.fifo_batch", "0x20")
    assert elevator.tunables["fifo_batch"].value == 32


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("iosched.fifo_batch", "many", "'many' is not a whole number"),
        ("iosched.front_merges", "7", "7 is out of range: 0 to 1"),
        ("iosched.fifo_bach", "7", "did you mean fifo_batch"),
        ("iosched.xyz", "7", "there are "),
    ],
)
def test_a_wrong_tunable(path: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"--set {path}: .*{message}"):
        set_tunable(Deadline(), path, text)
