"""--explain loop: what it counts agrees with the run, and who waits, for what and behind whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from block_world import HandTask
from stage_world import StageWorld

from blktwin.cli import main
from blktwin.drivers.loop.reasons import REASON_EAGAIN_SYNC, REASON_INLINE, REASON_POLICY
from blktwin.errors import UsageError
from blktwin.lab.explain import Explain
from blktwin.sim.costs import Costs
from blktwin.sim.stage_loop import KEPT_STRETCHES, OTHER_WORKERS, LoopFacts, Stretches
from blktwin.sim.stage_watch import WatchTrace
from blktwin.sim.workqueue import PoolWorker

STACK = """
[device."/dev/nvme0n1"]
profile = "nvme"
[file."/img"]
size = "64m"
[loop.loop0]
backing-file = "/img"
direct-io = true
policy = "workqueue"
[[variant]]
name = "nowait"
set = {"loop.loop0.policy" = "nowait_first"}
[[variant]]
name = "sparse"
set = {"loop.loop0.policy" = "nowait_first", "loop.loop0.hint" = false, "file./img.sparse" = true}
[[variant]]
name = "hint"
set = {"loop.loop0.policy" = "nowait_first", "file./img.sparse" = true}
[[variant]]
name = "per_command"
set = {"loop.loop0.policy" = "per_command"}
[[variant]]
name = "nested"
set = {"loop.loop1" = {"backing-file" = "/dev/loop0", "direct-io" = true, policy = "nowait_first"}}
"""


def explain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], variant: str = "", *words: str, device: str = "loop0"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run jobs on a loop device; return its explanation and the whole "blktwin" of the result."""
    stack = tmp_path / "s.toml"
    stack.write_text(STACK)
    run = ["run", f"--stack={stack}", "--explain=loop", "--output-format=json"]
    if variant:
        run.append(f"--variant={variant}")
    job = [f"--filename=/dev/{device}", "--direct=1", "--size=32m", "--time_based", "--runtime=5ms", "--bs=4k"]
    assert main([*run, "--name=j", *job, "--numjobs=4", "--group_reporting", *(words or ("--rw=randread",))]) == 0
    ours = json.loads(capsys.readouterr().out)["blktwin"]
    return ours["explain"][f"/dev/{device}"]["loop"], ours


def test_a_worker_executes_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, ours = explain(tmp_path, capsys)
    requests = ours["stack"]["loops"]["loop0"]["requests"]
    assert told["requests"] == told["by_workers"] == requests > 50
    assert told["inline"] == 0
    assert told["reasons"] == {"policy": requests}
    assert all(who["name"].startswith("kworker/u") for who in told["executors"])
    assert sum(who["given"] for who in told["executors"]) == requests
    begun = sum(int(size) * count for size, count in told["requests_per_work"].items())
    assert begun == requests
    assert told["works"] == sum(told["requests_per_work"].values())
    assert told["works_per_request"] == pytest.approx(told["works"] / requests, abs=0.001)
    assert told["empty_works"] == told["requests_per_work"].get("0", 0)
    assert told["device_below"] == "/dev/nvme0n1"
    assert sum(told["d2c_shares_percent"].values()) == pytest.approx(100, abs=0.1)
    assert told["call_depth"] == {"1": requests}
    assert ours["explain"]["cpu"]["ios"] == ours["conservation"]["completed"]
    assert ours["explain"]["cpu"]["us_per_io"]["kworkers"] > 0


def test_nowait_first_executes_in_the_submitter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, ours = explain(tmp_path, capsys, "nowait")
    requests = ours["stack"]["loops"]["loop0"]["requests"]
    assert told["executors"] == [{"name": "j", "inline": requests, "given": 0}]
    assert told["tries"]["read"]["tried"] == requests
    assert told["tries"]["read"]["eagain_percent"] == 0
    assert told["works"] == 0
    assert "kworkers" not in ours["explain"]["cpu"]["us_per_io"]


def test_a_sparse_image_tries_every_write_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, _ = explain(tmp_path, capsys, "sparse", "--rw=write")
    write = told["tries"]["write"]
    assert write["eagain_sync"] > 0.5 * write["tried"] > 10
    assert write["hint_skipped"] == 0
    assert told["reasons"]["eagain_sync"] == write["eagain_sync"]
    assert any("got EAGAIN" in line for line in told["summary"])


def test_the_hint_saves_attempts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, _ = explain(tmp_path, capsys, "hint", "--rw=write")
    write = told["tries"]["write"]
    assert write["hint_skipped"] == told["reasons"]["hint_skip"] > write["tried"]
    assert any("the hint kept" in line for line in told["summary"])


def test_per_command_has_a_work_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, _ = explain(tmp_path, capsys, "per_command")
    assert told["works_per_request"] == 1
    assert set(told["requests_per_work"]) == {"1"}


def test_a_nested_device_has_its_own_explanation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, ours = explain(tmp_path, capsys, "nested", device="loop1")
    below = ours["explain"]["/dev/loop0"]["loop"]
    assert told["device_below"] == "/dev/loop0"
    assert below["requests"] == told["requests"]
    assert set(below["call_depth"]) == {"1"}


def test_text_and_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = tmp_path / "s.toml"
    stack.write_text(STACK)
    job = ["--name=j", "--filename=/dev/loop0", "--direct=1", "--size=32m", "--rw=randread", "--number_ios=50"]
    assert main(["run", f"--stack={stack}", "--explain=loop", *job]) == 0
    text = capsys.readouterr().out
    assert text.index("Run status group 0") < text.index("Loop driver, /dev/loop0: workqueue, direct, /img on /dev/nv")
    assert "  Summary\n  - D2C is " in text
    assert "CPU time per I/O of the jobs: " in text
    assert "Stages" not in text


def test_both_explanations_of_one_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = tmp_path / "s.toml"
    stack.write_text(STACK.replace('policy = "workqueue"\n[[', 'policy = "workqueue"\nscheduler = "bfq"\n[[', 1))
    job = ["--name=j", "--filename=/dev/loop0", "--direct=1", "--size=32m", "--rw=randread", "--number_ios=50"]
    assert main(["run", f"--stack={stack}", "--explain=bfq,loop", "--output-format=json", *job]) == 0
    told = json.loads(capsys.readouterr().out)["blktwin"]["explain"]["/dev/loop0"]
    assert {"seconds", "loop"} <= set(told)
    assert told["loop"]["requests"] == 50


def test_no_loop_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "run",
                "--explain=loop",
                "--name=j",
                "--filename=/dev/nvme0n1",
                "--rw=read",
                "--direct=1",
                "--number_ios=9",
            ]
        )
        == 2
    )
    assert "--explain: no job uses a loop device" in capsys.readouterr().err


def test_a_name_that_explains_nothing() -> None:
    with pytest.raises(UsageError, match="nothing explains 'lop'; did you mean loop"):
        Explain("bfq,lop")


# -- by hand


def watched() -> tuple[StageWorld, WatchTrace]:
    """Return a world under WatchTrace."""
    trace = WatchTrace(Costs())
    return StageWorld(trace=trace), trace


def facts_of(world: StageWorld) -> LoopFacts:
    """Return what is kept of its device."""
    facts = world.stages().loop
    assert facts is not None
    return facts


def test_a_bio_behind_a_request_inside_the_driver_is_a_lost_merge() -> None:
    """From its arrival until its own bio reaches the device below."""
    world, trace = watched()
    world.at(10).submit(0)
    first = world.device.held[0]
    trace.loop_dispatch(first)
    world.submit(8)
    assert facts_of(world).nr_followers == 1
    world.submit(8, op=1)
    assert facts_of(world).nr_followers == 1, "a write does not follow a read"
    trace.loop_lower_queue(first)
    trace.loop_lower_done(first)
    world.submit(8)
    assert facts_of(world).nr_followers == 1
    for _ in range(4):
        world.complete()
    assert facts_of(world).on_their_way == {}


def test_who_takes_over_after_an_attempt_has_executed_it() -> None:
    world, trace = watched()
    world.at(10).submit(0)
    rq = world.device.held[0]
    trace.loop_dispatch(rq)
    trace.loop_begin(rq, world.task, REASON_INLINE)
    trace.loop_work(rq, REASON_EAGAIN_SYNC)
    worker = HandTask(7, "kworker/u0:0", world.machine.cgroups.root)
    world.at(500)
    trace.work_begin(worker, "hand0", 200)
    trace.loop_begin(rq, worker, REASON_EAGAIN_SYNC)
    trace.work_end(worker)
    world.at(900).complete()
    facts = facts_of(world)
    assert [(one.task.pid, one.nr_inline, one.nr_given) for one in facts.runners.values()] == [(1, 0, 0), (7, 0, 1)]
    assert list(facts.tried) == [1, 0]
    assert facts.given[REASON_EAGAIN_SYNC] == 1
    assert (facts.nr_works, facts.batches[1], facts.worker_wait.total) == (1, 1, 200)


def test_the_depth_is_that_of_the_execution() -> None:
    world, trace = watched()
    world.at(10).submit(0)
    rq = world.device.held[0]
    trace.loop_dispatch(rq)
    world.task.fs_depth = 2
    trace.loop_begin(rq, world.task, REASON_INLINE)
    world.task.fs_depth = 0
    world.complete()
    assert {at: n for at, n in enumerate(facts_of(world).depths) if n} == {3: 1}


def test_works_of_other_queues_do_not_count() -> None:
    world, trace = watched()
    world.at(10).submit(0)
    rq = world.device.held[0]
    trace.loop_dispatch(rq)
    worker = HandTask(7, "kworker/u0:0", world.machine.cgroups.root)
    trace.work_begin(worker, "writeback", 50)
    trace.work_end(worker)
    trace.work_begin(worker, "hand0", 50)
    trace.work_end(worker)
    facts = facts_of(world)
    assert (facts.nr_works, facts.nr_empty_works) == (1, 1)
    world.complete()
    assert REASON_POLICY == 1


def test_a_worker_waits_behind_who_ran_on_its_cpu() -> None:
    """Woken at 300, it runs from 1000 to 1400: a job had the CPU to 500, another worker to 900."""
    world, trace = watched()
    world.at(10).submit(0)
    trace.loop_dispatch(world.device.held[0])
    machine = world.machine
    machine.pools.build()
    [pool] = machine.pools.pools
    mine, other, job = PoolWorker(pool, 7), PoolWorker(pool, 8), HandTask(20, "j", machine.cgroups.root)
    trace.task_ran(job, 0, 500)
    trace.task_ran(other, 500, 900)
    elsewhere = HandTask(21, "far", machine.cgroups.root)
    elsewhere.cpu = 1
    trace.task_ran(elsewhere, 0, 1000)
    world.at(1000)
    mine.wait_ns = 700
    trace.work_begin(mine, "hand0", 800)
    trace.task_ran(mine, 1000, 1400)
    facts = facts_of(world)
    assert facts.behind == {"j": 200, OTHER_WORKERS: 400}
    assert (facts.cpu_wait.total, facts.worker_wait.total) == (700, 800)
    # Between two requests it yields to the job: the same activation waits once more.
    trace.task_ran(job, 1400, 1600)
    mine.wait_ns += 200
    trace.task_ran(mine, 1600, 1700)
    assert facts.behind == {"j": 400, OTHER_WORKERS: 400}
    assert (facts.cpu_wait.count, facts.cpu_wait.total) == (2, 900)


def test_old_stretches_are_forgotten() -> None:
    task = HandTask(1, "j", watched()[0].machine.cgroups.root)
    stretches = Stretches(task)
    for at in range(KEPT_STRETCHES + 50):
        stretches.add(task, at * 10, at * 10 + 10)
    behind: dict[str, int] = {}
    stretches.account(0, (KEPT_STRETCHES + 50) * 10, behind)
    assert behind == {"j": KEPT_STRETCHES * 10}
