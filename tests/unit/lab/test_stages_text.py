"""--stages: the tables in text and JSON say what was counted, in both naming systems, and cost the run nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from stage_world import StageWorld

from blktwin.block.bio import REQ_OP_WRITE, REQ_SYNC
from blktwin.cli import main
from blktwin.drivers.loop.reasons import REASON_INLINE, REASON_POLICY
from blktwin.errors import BlktwinError
from blktwin.fio import jobfile
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack
from blktwin.lab.stages import NAMING, SAME, Stages, document, render, us
from blktwin.sim.devices.spec import parse_device

JOB = "--name=j --filename=/dev/nvme0n1 --direct=1 --size=64m --time_based --runtime=5ms --bs=4k".split()
LOOP = """
[device."/dev/nvme0n1"]
profile = "nvme"
[file."/img"]
size = "64m"
[loop.loop0]
backing-file = "/img"
direct-io = true
policy = "workqueue"
[[variant]]
name = "inline"
set = {"loop.loop0.policy" = "nowait_first"}
"""


def cells(text: str, row: str) -> list[str]:
    """Return the cells of the first row of that name."""
    found = re.search(rf"^ +{re.escape(row)} +(.*)$", text, re.MULTILINE)
    assert found, f"no row {row} in\n{text}"
    return found[1].split()


def loop_world() -> StageWorld:
    """Return a world with one read through a worker and one write without lower I/O, executed inline."""
    world = StageWorld()
    world.at(1000).submit(0)
    rq = world.device.held[0]
    world.trace.loop_dispatch(rq)
    world.at(3000)
    world.trace.loop_work(rq, REASON_POLICY)
    world.at(11_000)
    world.trace.loop_begin(rq, world.task, REASON_POLICY)
    world.at(15_000)
    world.trace.loop_lower_queue(rq)
    world.at(55_000)
    world.trace.loop_lower_done(rq)
    world.at(61_000).complete()
    world.at(70_000).submit(64, op=REQ_OP_WRITE, flags=REQ_SYNC)
    rq = world.device.held[0]
    world.trace.loop_dispatch(rq)
    world.trace.loop_begin(rq, world.task, REASON_INLINE)
    world.at(75_000).complete()
    return world


def test_the_table_of_a_loop_device() -> None:
    text = render("/dev/loop0", loop_world().stages())
    assert text.startswith("\nStages, /dev/loop0 (us)\n  total ")
    assert cells(text, "D2C") == ["2", "32.500", "5.000", "5.024", "60.000", "60.000", "60.000", "60.000", "100.0%"]
    assert cells(text, "W2X")[:3] == ["2", "4.000", "0.000"]
    assert cells(text, "X2C")[:2] == ["1", "5.000"]
    assert cells(text, "Q'2C'")[:2] == ["1", "40.000"]
    assert SAME in text
    read = text[text.index("\n  read ") : text.index("\n  write ")]
    assert [cells(read, stage)[1] for stage in ("D2W", "W2X", "X2Q'", "Q'2C'", "C'2C")] == [
        "2.000",
        "8.000",
        "4.000",
        "40.000",
        "6.000",
    ]
    # Arrivals follow each other, whatever they want.
    assert "Q2Q" not in read
    assert "#Q 2, #D 2, ratio 1.00; sectors per request: min 8, avg 8.0, max 8, total 16" in text


def test_the_stages_inside_d2c_add_up_to_it() -> None:
    data = document(loop_world().stages())
    for direction in ("read", "write", "total"):
        rows = data[direction]
        assert isinstance(rows, dict)
        inside = sum(
            rows[s]["count"] * rows[s]["mean_ns"] for s in rows if s not in ("Q2Q", "Q2G", "G2D", "D2C", "Q2C")
        )
        assert inside == pytest.approx(rows["D2C"]["count"] * rows["D2C"]["mean_ns"])
    assert data["is_loop"] is True
    assert data["i2c_zh"] == "I2C (mail) = D2C (btt)"


def test_one_direction_has_one_table_under_its_name() -> None:
    world = StageWorld()
    world.at(0).submit(0)
    world.at(2_000_000).complete()
    text = render("/dev/x", world.stages())
    assert "  read " in text
    assert "total " not in text.partition("#Q")[0]
    assert SAME not in text
    assert cells(text, "D2C")[1] == "2000.0"


def test_percentiles_stay_within_what_was_seen() -> None:
    """The bins of fio's histogram are wider than one sample."""
    world = StageWorld()
    world.at(0).submit(0)
    world.at(1_000_001).complete()
    assert set(cells(render("/dev/x", world.stages()), "D2C")[1:8]) == {"1000.0"}
    rows = document(world.stages())["read"]
    assert isinstance(rows, dict)
    assert rows["D2C"]["p99.9_ns"] == 1_000_001


def test_times_are_written_in_us() -> None:
    assert [us(0), us(1), us(999_999), us(13_960_000)] == ["0.000", "0.001", "999.999", "13960.0"]


def test_stages_before_a_run_are_an_error() -> None:
    with pytest.raises(BlktwinError, match="nothing has run"):
        Stages().text()


def test_a_run_keeps_them_and_goes_as_without_them() -> None:
    stack = Stack(devices=[parse_device("/dev/nvme0n1")], scheduler="mq-deadline")
    words = [*JOB, "--rw=randrw", "--ioengine=libaio", "--iodepth=16"]
    stages = Stages()
    told = simulate(jobfile.load([], words, env={}), stack, stages=stages)
    plain = simulate(jobfile.load([], words, env={}), stack)
    data = told.blktwin.pop("stages")
    assert told.blktwin == plain.blktwin
    assert [job.stat.directions[0].clat.total for job in told.jobs] == [
        job.stat.directions[0].clat.total for job in plain.jobs
    ]
    assert isinstance(data, dict)
    done = int(stages.stat("/dev/nvme0n1", "D2C").count)
    assert done == data["/dev/nvme0n1"]["total"]["D2C"]["count"] > 100
    reads, writes = (int(stages.stat("/dev/nvme0n1", "D2C", way).count) for way in ("read", "write"))
    assert reads + writes == done
    assert stages.stat("/dev/nvme0n1", "Q2M").count == 0
    assert stages.stat("/dev/sda", "D2C").count == 0


def test_normal_output_has_a_section_and_json_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", *JOB, "--rw=randread", "--device=/dev/nvme0n1=nvme"]
    assert main(["run", "--stages", *words[1:]]) == 0
    text = capsys.readouterr().out
    assert "\nStages, /dev/nvme0n1 (us)\n" in text
    assert NAMING not in text
    assert main(["run", "--stages", "--output-format=json", *words[1:]]) == 0
    data = json.loads(capsys.readouterr().out)["blktwin"]["stages"]
    assert data["naming"] == NAMING
    assert data["/dev/nvme0n1"]["read"]["D2C"]["count"] > 10
    assert main(words) == 0
    assert "Stages" not in capsys.readouterr().out


def test_terse_has_no_place_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--stages", "--output-format=terse", *JOB, "--rw=randread"]) == 2
    assert "--stages: terse has no place for it" in capsys.readouterr().err


def loop_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what a run on a loop device prints."""
    stack = tmp_path / "s.toml"
    stack.write_text(LOOP)
    job = ["--name=j", "--filename=/dev/loop0", "--direct=1", "--size=32m", "--time_based", "--runtime=5ms", "--bs=4k"]
    assert main(["run", f"--stack={stack}", "--stages", *words, *job, "--rw=randread", "--numjobs=4"]) == 0
    return capsys.readouterr().out


def test_both_names_are_told_once_for_loop_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = loop_run(tmp_path, capsys)
    assert text.count(NAMING) == 1
    assert text.count(SAME) == 1
    assert text.index(NAMING) < text.index("Stages, /dev/loop0 (us)") < text.index("Stages, /dev/nvme0n1 (us)")
    assert float(cells(text, "W2X")[1]) > 0


def test_inline_execution_shows_no_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = loop_run(tmp_path, capsys, "--variant=inline")
    count = cells(text, "D2C")[0]
    for stage in ("D2W", "W2X"):
        assert cells(text, stage)[:2] == [count, "0.000"]
    assert cells(text, "Q'2C'")[0] == count
