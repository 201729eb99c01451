"""The benchmarks measure what they say: SimPy runs our model, and table and gate can tell good from bad."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import instructions, product, simpy_model
from benchmarks.instructions import GateError, Recorded, compare
from benchmarks.product import CASES, Case, Sample
from benchmarks.real_fio import LeftOut, loop_device
from benchmarks.rounds import Contestant, race, ratio
from benchmarks.table import AT_LEAST, AT_MOST, Row, Target, render

TOOLS = {"python": "3.11.2"}


@pytest.mark.parametrize("numjobs", [1, 8])
def test_simpy_runs_the_same_model(numjobs: int) -> None:
    """The peer's IOPS and mean latency are ours within 1 %, else the speed ratio would compare apples and pears."""
    case = Case("none", numjobs=numjobs)
    ours = product.run_case(case, 20)
    theirs = simpy_model.run_case(case, 20)
    assert ours.ios > 100 * numjobs
    assert theirs.iops == pytest.approx(ours.iops, rel=0.01)
    assert theirs.clat_ns == pytest.approx(ours.clat_ns, rel=0.01)


def test_simpy_offsets_are_a_permutation() -> None:
    """The peer pays for fio's random map too: no block twice before all were written."""
    offsets = simpy_model.Offsets(1)
    first = [offsets.next() for _ in range(simpy_model.BLOCKS)]
    assert sorted(first) == list(range(simpy_model.BLOCKS))
    assert 0 <= offsets.next() < simpy_model.BLOCKS


def test_mq_deadline_case_differs() -> None:
    """The cases reach the stack: the elevator's cost shows in the latency."""
    none = product.run_case(Case("none"), 5)
    deadline = product.run_case(Case("mq-deadline"), 5)
    assert deadline.clat_ns > none.clat_ns


def test_table() -> None:
    """Columns line up; a target is judged by the exact number, not by the rounded one."""
    text = render(
        [
            Row("speed", "IO/s", 3_999_999.0, target=Target(AT_LEAST, 4e6, is_ratio=False)),
            Row("pair", "IO/s", 4e6, 250e3, 16.0, Target(AT_LEAST, 12.0)),
            Row("slow pair", "IO/s", 812.0, 99_960.0, 0.00812, Target(AT_LEAST, 1.0)),
            Row("memory", "MiB", 27.0, 26.5, 27.0 / 26.5, Target(AT_MOST, 1.05)),
            Row("absent", "IO/s", 4e6, target=Target(AT_LEAST, 12.0), note="fio is not installed"),
        ]
    )
    assert text.splitlines() == [
        "what           ours      peer  ratio       target  met",
        "---------  --------  --------  -----  -----------  ------------",
        "speed      4.00 M/s         -      -  >= 4.00 M/s  NOT MET",
        "pair       4.00 M/s   250 k/s  16.0x     >= 12.0x  met",
        "slow pair    812 /s   100 k/s  0.01x     >= 1.00x  NOT MET",
        "memory     27.0 MiB  26.5 MiB  1.02x     <= 1.05x  met",
        "absent     4.00 M/s         -      -     >= 12.0x  not measured",
        "absent: fio is not installed",
    ]


def test_race() -> None:
    """Contestants take turns; ratios pair the same round; who cannot run is left out with the reason."""
    order: list[str] = []

    def runner(name: str, cpu_s: float) -> Contestant:
        def run(runtime_ms: int) -> Sample:
            order.append(name)
            # The second round is twice as slow, for both: pairs do not see it.
            return Sample(1000, cpu_s * (1 + order.count(name) // 2), 1.0, 1.0)

        return Contestant(run, 0)

    def absent(runtime_ms: int) -> Sample:
        raise LeftOut("no such thing")

    ours, peer, other = runner("ours", 1.0), runner("peer", 4.0), Contestant(absent, 0)
    race({"ours": ours, "peer": peer, "other": other}, 2)
    assert order == ["ours", "peer", "ours", "peer"]
    assert ratio(ours, peer) == pytest.approx(4.0)
    assert (other.rate(), other.left_out, ratio(ours, other)) == (None, "no such thing", None)


@pytest.mark.parametrize(
    ("per_io", "tools", "is_fine", "word"),
    [
        ({"none": 1049.0}, TOOLS, True, "+4.9%"),
        ({"none": 1051.0}, TOOLS, False, "more than 5%"),
        ({"none": 900.0}, TOOLS, True, "better"),
        ({"none": 1200.0}, {"python": "3.13.0"}, True, "python 3.11.2 -> 3.13.0"),
        ({"none": 1300.0}, {"python": "3.13.0"}, False, "more than 25%"),
        ({"none": 1000.0, "bfq": 1.0}, TOOLS, False, "bfq"),
        ({}, TOOLS, False, "none"),
    ],
)
def test_instruction_gate(per_io: dict[str, float], tools: dict[str, str], is_fine: bool, word: str) -> None:
    """5 % more instructions than recorded fail, and so does a case that is missing on either side."""
    text, fine = compare(Recorded("0.1.0", TOOLS, {"none": 1000.0}), per_io, tools)
    assert fine == is_fine
    assert word in text


def test_record_is_complete(tmp_path: Path) -> None:
    """The record in the checkout has every case that the gate counts; a missing record is a clear error."""
    assert set(instructions.load(instructions.RECORD).per_io) == set(instructions.LENGTHS_MS) <= set(CASES)
    with pytest.raises(GateError, match="--record"):
        instructions.load(tmp_path / "instructions.json")


def test_loop_device_is_gone_when_its_process_dies() -> None:
    """Even SIGKILL leaves neither the loop device nor its file."""
    try:
        with loop_device() as path:
            # While it is up there is something to be gone.
            assert Path("/sys/block", Path(path).name, "loop/backing_file").exists()
    except LeftOut as reason:
        pytest.skip(str(reason))
    script = (
        "import os, signal\n"
        "from benchmarks.real_fio import loop_device\n"
        "with loop_device() as path:\n"
        "    print(path, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=product.ROOT, capture_output=True, text=True, env=os.environ
    )
    name = done.stdout.strip().removeprefix("/dev/")
    assert done.returncode == -9, done.stderr
    assert not Path("/sys/block", name, "loop/backing_file").exists()
