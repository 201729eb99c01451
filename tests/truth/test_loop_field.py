"""Loop devices in the field: where direct I/O gains four times (systemd 21003) and where nothing (osbuild 1647)."""

from __future__ import annotations

from pathlib import Path

import pytest

from blktwin.lab.scenario import Scenario
from blktwin.lab.scenario_text import SAME, render_text
from blktwin.lab.stack_file import parse_stack

STACK = """
job = "j.fio"
[device."/dev/{device}"]
profile = "{profile}"
queues = 4
depth = 128
scheduler = "none"
[file."/f"]
size = "4g"
fs = "btrfs"
[loop.loop0]
backing-file = "/f"
[[variant]]
name = "buffered"
[[variant]]
name = "direct"
set = {{"loop.loop0.direct-io" = true}}
"""
HOME = (
    "[home]\nfilename=/dev/loop0\nrw=randread\nbs=128k\ndirect=1\nioengine=libaio\niodepth=4\nsize=1g\nruntime=200ms\n"
)
BUILD = "[build]\nfilename=/dev/loop0\nrw=write\nbs=256k\nioengine=psync\nfsync=64\nend_fsync=1\nsize=128m\n"


def run(folder: Path, job: str, device: str, profile: str) -> Scenario:
    """Run a job on a buffered loop device and on one with direct I/O."""
    (folder / "j.fio").write_text(job)
    text = STACK.format(device=device, profile=profile)
    scenario = Scenario(parse_stack(text, str(folder / "s.toml")), seeds=[1, 2])
    scenario.run()
    return scenario


def test_a_home_image_is_read_four_to_five_times_faster_with_direct_io(tmp_path: Path) -> None:
    """Case 27: 150 to 250 MB/s buffered, more than 1 GB/s direct. A buffered worker is a queue of depth one."""
    scenario = run(tmp_path, HOME, "nvme0n1", "nvme")
    buffered, direct = scenario.outcomes
    found = scenario.against_first(direct, "iops")
    assert found is not None
    assert found.is_significant
    assert 4.0 <= found.ratio <= 5.0
    assert buffered.dominant()[0] == "W2X"
    assert buffered.dominant()[1] > 60
    assert (direct.mean("read-mib-s") or 0) > 1000


def test_an_image_build_gains_nothing_and_is_told_so(tmp_path: Path) -> None:
    """Case 28: what is written through a page cache anyway, in order, goes at the device's speed both ways."""
    scenario = run(tmp_path, BUILD, "sda", "sata-ssd")
    direct = scenario.outcomes[1]
    for metric in ("iops", "lat"):
        found = scenario.against_first(direct, metric)
        assert found is not None
        assert found.ratio == pytest.approx(1.0, abs=0.05)
        assert not found.is_significant
    (row,) = (line for line in render_text(scenario).splitlines() if line.startswith("direct "))
    assert row.endswith(SAME)
