"""--explain bfq: what it counts agrees with the run, and what it says is why the run went so."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from blktwin.block.bfq.log import (
    IDLE_GROUPS,
    IDLE_NOT,
    IDLE_ONLY,
    IDLE_RAISED,
    IDLE_STRICT,
    NOT_OFF,
    PREEMPTED,
    TOO_IDLE,
)
from blktwin.fio import jobfile
from blktwin.fio.output_json import render_json
from blktwin.fio.results import RunResult
from blktwin.lab.cgroups import load_cgroups
from blktwin.lab.explain import Explain, summary
from blktwin.lab.explain_log import DecisionLog
from blktwin.lab.explain_text import decision_text
from blktwin.lab.explain_words import Totals
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack, find_rules
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.hosts import get_host

HOSTS = {"5.10": "tcg-5.10", "6.1": "tcg-6.1", "6.12": "tcg-6.1", "7.2": "tcg-7.2"}
LATENCY_US = 500
Places = tuple[str, ...]


def words_of(places: Places, step_ms: int, last_ms: int) -> list[str]:
    """Return psync random writers, one a place, starting step_ms apart; for last_ms all of them run."""
    words = ["--name=global", "--filename=/dev/nullb0", "--direct=1", "--ioengine=psync", "--bs=4k", "--rw=randwrite"]
    words += ["--thread", "--norandommap", "--time_based", "--size=500m"]
    until_ms = step_ms * (len(places) - 1) + last_ms
    for at, place in enumerate(places):
        start_ms = step_ms * at
        words += [f"--name=t{at}", f"--startdelay={start_ms}ms", f"--runtime={until_ms - start_ms}ms"]
        words.append(f"--offset={500 * at}m")
        if place != "/":
            words.append(f"--cgroup={place}")
    return words


def run(
    rules: str,
    words: list[str],
    explain: Explain | None,
    *,
    tunables: tuple[tuple[str, str], ...] = (),
    low_latency: int = 0,
    cgroups: str = "",
    latency_us: int = LATENCY_US,
) -> RunResult:
    """Run jobs on null_blk under BFQ."""
    stack = Stack(
        devices=[parse_device(f"/dev/nullb0=null,latency={latency_us}us,depth=64,queues=1,size=10g")],
        scheduler="bfq",
        tunables=[("iosched.low_latency", str(low_latency)), *tunables],
        rules=find_rules(rules),
        host=get_host(HOSTS[rules]),
        cgroups=load_cgroups(cgroups) if cgroups else None,
    )
    return simulate(jobfile.load([], words, env={}), stack, explain=explain)


def explained(rules: str, places: Places, step_ms: int = 200, last_ms: int = 200, **how: object) -> DecisionLog:
    """Return the log of writers in their cgroups."""
    explain = Explain("bfq")
    run(rules, words_of(places, step_ms, last_ms), explain, **how)  # type: ignore[arg-type]
    [log] = explain.logs
    return log


@cache
def writers(rules: str, places: Places) -> DecisionLog:
    """Return the log of writers that start apart, low_latency off."""
    return explained(rules, places)


def words(log: DecisionLog) -> str:
    """Return the summary."""
    explain = Explain("bfq")
    explain.logs = [log]
    return "\n".join(summary(explain))


# -- the numbers


@pytest.mark.parametrize(("rules", "place"), [("6.1", "/c1"), ("7.2", "/c1"), ("7.2", "/")])
def test_numbers_add_up(rules: str, place: str) -> None:
    """Seconds cover the run, every request is counted once, and the depth is what Little's law says."""
    explain = Explain("bfq")
    result = run(rules, words_of((place,) * 3, 250, 700), explain)
    [log] = explain.logs
    totals = Totals(log)
    rows = [row for second in log.seconds for row in second.rows.values()]
    done = result.blktwin["conservation"]
    assert isinstance(done, dict)
    assert [second.number for second in log.seconds] == [0, 1]
    assert log.seconds[0].span_ns == 1_000_000_000
    assert sum(second.span_ns for second in log.seconds) == totals.span_ns >= result.elapsed_ms * 1_000_000
    assert sum(row.requests for row in rows) == totals.requests == done["completed"]
    assert totals.depth_ns / totals.span_ns == pytest.approx(
        totals.requests * LATENCY_US * 1000 / totals.span_ns, rel=0.01
    )
    for second in log.seconds:
        assert sum(second.groups.values()) == second.span_ns
        assert sum(row.service_ns for row in second.rows.values()) <= second.span_ns
        waited_ns = sum(one.idle_ns for row in second.rows.values() for one in row.decisions.values())
        assert second.nothing_ns + waited_ns <= second.idle_ns
        for row in second.rows.values():
            for decision in row.decisions.values():
                assert decision.lost_ns <= decision.idle_ns
                assert decision.idle_ns + decision.kept_ns <= row.service_ns
    ends = sum(sum(row.expired) for row in rows)
    # A slot ends by a reason, with its process, or with the run.
    assert ends <= sum(row.slots for row in rows) <= ends + 3


@pytest.mark.parametrize("rules", ["6.1", "7.2"])
def test_explaining_changes_nothing(rules: str) -> None:
    """The result is the same with and without."""
    jobs = words_of(("/a", "/b", "/"), 30, 150)
    plain = run(rules, jobs, None, low_latency=1)
    told = run(rules, jobs, Explain("bfq"), low_latency=1)
    assert told.blktwin.pop("explain")
    assert render_json(told, True) == render_json(plain, True)


def test_queues_are_named_after_jobs_and_cgroups() -> None:
    """Threads of one name are numbered."""
    log = explained("7.2", ("/c1", "/"), last_ms=20)
    assert [who.label for who in log.whos.values()] == ["t0 in /c1", "t1 in /"]
    explain = Explain("bfq")
    run("5.10", [*words_of(("/c1",), 0, 20), "--numjobs=2"], explain)
    assert sorted(who.label for who in explain.logs[0].whos.values()) == ["t0.0 in /c1", "t0.1 in /c1"]


# -- the reasons


def test_writers_in_a_cgroup_before() -> None:
    """Until 6.1 one cgroup makes BFQ idle, and it says by which count, and what 6.2 would do."""
    log = writers("6.1", ("/c1",) * 4)
    totals = Totals(log)
    assert totals.share(totals.cost_ns(IDLE_GROUPS)) > 0.5
    decision = totals.decisions[IDLE_GROUPS]
    assert decision.depth_ns / decision.kept_ns == pytest.approx(1, abs=0.01)
    text = words(log)
    assert "idling for /c1 because num_groups_with_pending_reqs = 1 > 0 (6.1 counts every cgroup" in text
    assert "here /c1; since 6.2" in text
    assert "here 1, so it would not idle" in text


def test_writers_in_a_cgroup_after() -> None:
    """Since 6.2 the same job makes nobody wait, and it says what 6.1 would have done."""
    log = writers("7.2", ("/c1",) * 4)
    totals = Totals(log)
    assert max(totals.cost_ns(rule) for rule in totals.decisions) < 0.001 * totals.span_ns
    assert totals.decisions[IDLE_NOT].refused > 0.8 * totals.requests
    text = words(log)
    assert "BFQ did not idle for /c1" in text
    assert "num_groups_with_pending_reqs = 1 <= 1, weight 40 x4, busy: " in text
    assert "1 > 0, it would idle" in text


def test_writers_in_root() -> None:
    """In the root no kernel's rules idle, and there is nothing to say of groups."""
    before = writers("6.1", ("/",) * 4)
    after = writers("7.2", ("/",) * 4)
    assert "because num_groups_with_pending_reqs = 0 <= 0, weight 40 x4" in words(before)
    assert "because num_groups_with_pending_reqs = 1 <= 1, weight 40 x4" in words(after)
    assert "would" not in words(before) + words(after)
    assert {value for second in before.seconds for value in second.groups} == {0}
    rows = [row for second in after.seconds for row in second.rows.values()]
    assert sum(row.expired[PREEMPTED] for row in rows) > 1000


def test_nested_cgroups_are_counted_twice_before() -> None:
    """/c1/c2 counts with the cgroup above it; since 6.2 it is alone."""
    text = words(writers("6.1", ("/c1/c2",) * 2))
    assert "num_groups_with_pending_reqs = 2 > 0" in text
    assert "here /c1, /c1/c2; since 6.2" in text
    assert "here 1, so it would not idle" in text
    assert "num_groups_with_pending_reqs = 1 <= 1" in words(writers("7.2", ("/c1/c2",) * 2))


def test_a_queue_alone_idles_harmlessly() -> None:
    """One job: the device idles for it, and nobody waits."""
    log = explained("7.2", ("/c1",), last_ms=100)
    totals = Totals(log)
    assert totals.cost_ns(IDLE_ONLY) == 0
    assert totals.decisions[IDLE_ONLY].timers > 100
    assert "because no other queue is busy (tot_busy_queues = 1); harmless" in words(log)


def test_two_groups_by_weight(tmp_path: Path) -> None:
    """10 to 90: both kernels idle for both, 6.2 would too, and the weights are told with what came of them."""
    path = tmp_path / "cgroups.toml"
    path.write_text('[cgroup."/a"]\nio.bfq.weight = 10\n[cgroup."/b"]\nio.bfq.weight = 90\n')
    for rules, sign in (("6.1", "2 > 0"), ("7.2", "2 > 1")):
        log = explained(rules, ("/a", "/b"), 0, 1200, cgroups=str(path))
        text = words(log)
        assert f"idling for /a, /b because num_groups_with_pending_reqs = {sign}" in text
        assert "would not" not in text
        assert "/a (weight 10) " in text
        assert "/b (weight 90) " in text
        assert "instead of 90%" in text
        assert "starved" not in text


def test_injection_breaks_weights(tmp_path: Path) -> None:
    """Three psync jobs a group share 50 to 50 whatever the weights: most requests are injected, and it says so."""
    path = tmp_path / "cgroups.toml"
    path.write_text('[cgroup."/a"]\nio.bfq.weight = 100\n[cgroup."/b"]\nio.bfq.weight = 300\n')
    log = explained("6.12", ("/a",) * 3 + ("/b",) * 3, last_ms=1000, cgroups=str(path))
    totals = Totals(log)
    assert totals.injected > 0.3 * totals.requests
    assert sum(totals.gave) == totals.injected
    text = words(log)
    assert "by inject_limit, up to " in text
    assert "not held, because" in text


def test_jobs_that_start_together_share_a_queue() -> None:
    """Within 180 ms all processes get one queue, which hides the whole matter; 5.10 does not merge."""
    together = explained("6.1", ("/c1",) * 8, 20, 100)
    assert "8 processes share one queue (t0..t7 (8 jobs) in /c1), created within 180 ms" in words(together)
    assert [event.kind for event in together.events] == ["merge"] * 7
    assert sorted(event.who for event in together.events) == [f"t{at}" for at in range(1, 8)]
    assert IDLE_GROUPS not in Totals(together).decisions or not Totals(together).cost_ns(IDLE_GROUPS)
    apart = words(explained("5.10", ("/c1",) * 8, 20, 100))
    assert "share one queue" not in apart
    assert "num_groups_with_pending_reqs = 1 > 0" in apart


def test_late_merge_on_a_disk() -> None:
    """On a disk queues that are born together are merged 600 ms later, while they are raised."""
    job = "--name=global --filename=/dev/sda --direct=1 --bs=64k --rw=randread --time_based --ioengine=posixaio"
    jobs = [*job.split(), "--iodepth=4", "--runtime=1500ms", "--name=t1", "--name=t2", "--startdelay=10ms"]
    explain = Explain("bfq")
    stack = Stack([parse_device("/dev/sda=hdd")], "bfq", rules=find_rules("6.1"))
    simulate(jobfile.load([], jobs, env={}), stack, explain=explain)
    [merge] = [event for event in explain.logs[0].events if event.kind == "merge"]
    assert merge.text == "into the queue of t1+t2 in /: created together"
    assert merge.at_ns > 600_000_000
    assert "2 processes share one queue (t1+t2 in /), created within 180 ms" in "\n".join(summary(explain))


def test_slice_idle_zero() -> None:
    """slice_idle=0 is the reason not to idle, whatever the groups."""
    log = explained("6.1", ("/c1",) * 3, tunables=(("iosched.slice_idle", "0"),))
    totals = Totals(log)
    assert list(totals.decisions) == [NOT_OFF]
    assert "because slice_idle = 0: it never waits" in words(log)


def test_case_5_psync_readers_in_a_cgroup() -> None:
    """The report of January 2021: 32 readers in a cgroup are as slow as one, and the log names the count."""
    job = "--name=t --filename=/dev/nullb0 --direct=1 --ioengine=psync --bs=4k --rw=randread --runtime=300ms".split()
    job += ["--time_based", "--norandommap", "--cgroup=/c1"]
    iops = []
    texts = []
    for nr, tunables in ((1, ()), (32, ()), (32, (("iosched.slice_idle", "0"),))):
        explain = Explain("bfq")
        result = run("5.10", [*job, f"--numjobs={nr}", "--group_reporting"], explain, tunables=tunables)
        iops.append(result.reports()[0].total_ios)
        texts.append("\n".join(summary(explain)) + explain.text())
    assert iops[1] == pytest.approx(iops[0], rel=0.1)
    assert iops[2] > 10 * iops[0]
    assert "idling for /c1 because num_groups_with_pending_reqs = 1 > 0" in texts[1]
    assert "because slice_idle = 0" in texts[2]
    explain = Explain("bfq")
    run("5.10", [*job, "--numjobs=4"], explain)
    assert "bfq_asymmetric_scenario: num_groups_with_pending_reqs" in json.dumps(explain.document())


def test_raising_and_starvation() -> None:
    """With low_latency the last starters are raised, and the first is starved by them on 7.2."""
    log = explained("7.2", ("/",) * 8, 650, 1500, low_latency=1, latency_us=1000)
    totals = Totals(log)
    assert totals.cost_ns(IDLE_RAISED) > 0.3 * totals.span_ns
    text = words(log)
    assert "because the queue is weight-raised (wr_coeff = 30), and not all are: wr_busy_queues = " in text
    assert "starved: t0 in / waited " in text
    assert "weight-raised queues (low_latency) were in service" in text
    raising = [event for event in log.events if event.kind == "raising"]
    assert raising[0].text.startswith("wr_coeff 1 -> 30: taken for interactive")
    assert all(who.raised_ns > 0 for who in log.whos.values())


def test_large_bursts_are_not_raised() -> None:
    """Eight queues born together are a program that starts: raising ends at once."""
    log = explained("5.10", ("/",) * 9, 10, 100, low_latency=1)
    assert "a large burst of new queues: t0 in /" in words(log)
    assert any(event.text == "wr_coeff 30 -> 1: one of a large burst of new queues" for event in log.events)


def test_moves(tmp_path: Path) -> None:
    """A job that moves to another cgroup takes its queue along, and its rows have both places."""
    path = tmp_path / "cgroups.toml"
    path.write_text('[cgroup."/a"]\n[cgroup."/b"]\n[[at]]\ntime = "100ms"\nmove = "t0"\nto = "/b"\n')
    log = explained("7.2", ("/a", "/b"), 0, 200, cgroups=str(path))
    assert [(event.kind, event.who, event.text) for event in log.events if event.kind == "move"] == [
        ("move", "t0 in /b", "from /a")
    ]
    assert sorted(row.path for row in log.seconds[0].rows.values() if row.who.jobs == ["t0"]) == ["/a", "/b"]


def test_moves_out_of_a_shared_queue(tmp_path: Path) -> None:
    """Whoever shares a queue gets a new one where it goes; that is a move too."""
    path = tmp_path / "cgroups.toml"
    path.write_text(
        '[cgroup."/a"]\n[cgroup."/b"]\nio.bfq.weight = 300\n[[at]]\ntime = "100ms"\nmove = "t0"\nto = "/b"\n'
    )
    log = explained("7.2", ("/a", "/a", "/b"), 0, 900, cgroups=str(path))
    [move] = [event for event in log.events if event.kind == "move"]
    assert (move.who, move.text) == ("t0 in /b", "from /a, where others keep the queue that it shared")
    assert move.at_ns >= 100_000_000
    assert "changed in the run, last at 0." in words(log)


def test_slow_thinkers_are_waited_for_in_vain() -> None:
    """A job that thinks longer than slice_idle lets the timer fire: TOO_IDLE, and the device was idle for it."""
    jobs = [*words_of(("/a", "/b"), 0, 400), "--thinktime=15ms"]
    explain = Explain("bfq")
    run("7.2", jobs, explain)
    [log] = explain.logs
    rows = [row for second in log.seconds for row in second.rows.values() if row.who.jobs == ["t1"]]
    assert sum(row.expired[TOO_IDLE] for row in rows) > 5
    assert sum(decision.lost_ns for row in rows for decision in row.decisions.values()) > 10_000_000


def deep(tmp_path: Path, *extra: str, **how: object) -> tuple[DecisionLog, RunResult]:
    """Run three libaio readers in cgroups of 100, 200 and 700."""
    path = tmp_path / "cgroups.toml"
    weights = {"/a": 100, "/b": 200, "/c": 700}
    path.write_text("".join(f'[cgroup."{name}"]\nio.bfq.weight = {weight}\n' for name, weight in weights.items()))
    jobs = "--name=global --filename=/dev/nullb0 --direct=1 --ioengine=libaio --bs=4k --rw=randread".split()
    jobs += ["--size=1g", "--iodepth=64", "--time_based", "--runtime=2s", *extra]
    for name in weights:
        jobs += [f"--name={name[1:]}", f"--cgroup={name}"]
    explain = Explain("bfq")
    result = run("6.12", jobs, explain, cgroups=str(path), latency_us=6000, **how)  # type: ignore[arg-type]
    [log] = explain.logs
    return log, result


def test_strict_guarantees_keep_everybody_waiting(tmp_path: Path) -> None:
    """One request at a time: whoever has more waits for it, and that is told with its rule."""
    log, _ = deep(tmp_path, tunables=(("iosched.strict_guarantees", "1"),))
    totals = Totals(log)
    decision = totals.decisions[IDLE_STRICT]
    assert decision.kept_ns > 0.9 * totals.span_ns
    assert decision.depth_ns / decision.kept_ns == pytest.approx(1, abs=0.01)
    text = words(log)
    assert "kept at 1.0 in flight for" in text
    assert "because strict_guarantees = 1: BFQ gives nothing while anything is in the driver" in text
    assert "harmless" not in text
    alone = explained("6.12", ("/",), tunables=(("iosched.strict_guarantees", "1"),))
    assert "harmless, nobody else waited" in words(alone)


def test_weights_of_deep_queues_are_those_of_the_run(tmp_path: Path) -> None:
    """All had requests all the time, so the shares told are those of all but the 64 last; depth is the job's own."""
    log, result = deep(tmp_path)
    ios = [report.total_ios for report in result.reports()]
    [told] = [line for line in words(log).splitlines() if line.startswith("weights")]
    shares = [float(part) for part in re.findall(r"\) ([0-9.]+)% instead", told)]
    assert shares == pytest.approx([100 * one / sum(ios) for one in ios], abs=1)
    covered = re.search(r"in the [0-9.]+ s \(([0-9.]+)% of the run\) in which all had requests", told)
    assert covered is not None
    assert float(covered[1]) > 95
    assert "only the depth of its own job limits it" in words(log)
    whys = [decision_text(rule, one) for row in log.seconds[0].rows.values() for rule, one in row.decisions.items()]
    assert all(why.startswith("kept ") for why in whys)


def test_weights_are_not_compared_by_a_short_sample(tmp_path: Path) -> None:
    """Two jobs that meet for a tenth of the run say nothing of weights."""
    path = tmp_path / "cgroups.toml"
    path.write_text('[cgroup."/a"]\nio.bfq.weight = 10\n[cgroup."/b"]\nio.bfq.weight = 90\n')
    explain = Explain("bfq")
    run("6.12", words_of(("/a", "/b"), 900, 100), explain, cgroups=str(path))
    text = "\n".join(summary(explain))
    assert re.search(
        r"weights: not compared .* because there are only 0\.\d+ s \(9\.\d% of the run\) in which all", text
    )
    assert "instead of" not in text


def test_weights_that_change(tmp_path: Path) -> None:
    """A change is an event, and what is compared is what came after it."""
    path = tmp_path / "cgroups.toml"
    path.write_text(
        '[cgroup."/a"]\nio.bfq.weight = 100\n[cgroup."/b"]\nio.bfq.weight = 100\n'
        '[[at]]\ntime = "400ms"\ncgroup = "/b"\nio.bfq.weight = 300\n'
    )
    log = explained("7.2", ("/a", "/b"), 0, 5000, cgroups=str(path))
    [event] = [event for event in log.events if event.kind == "weight"]
    assert (event.who, event.text) == ("/b", "100 -> 300, in force from now on")
    assert 400_000_000 <= event.at_ns < 650_000_000
    told = re.search(
        r"weights \(they, or cgroups, changed in the run, last at 0\.\d+ s\), in the 4\.\d+ s \(\d+% of the run\) "
        r"since then in which all had requests: /a \(weight 100\) (\d+)% instead of 25%, /b \(weight 300\)",
        words(log),
    )
    assert told is not None
    assert int(told[1]) == pytest.approx(25, abs=4)


def test_a_year_without_io_is_one_piece() -> None:
    """Neither time nor memory goes with seconds in which nothing was decided; they are counted all the same."""
    job = "--filename=/dev/nvme0n1 --rw=read --direct=1 --number_ios=3 --size=1m".split()
    plan = jobfile.load([], ["--name=a", *job, "--name=b", *job, "--startdelay=31536000"], env={})
    explain = Explain("bfq")
    simulate(plan, Stack(scheduler="bfq"), explain=explain)
    [log] = explain.logs
    assert [second.number for second in log.seconds] == [0, 1, 31_536_000]
    assert log.seconds[1].span_ns == log.seconds[1].nothing_ns == 31_535_999 * 10**9
    assert sum(second.span_ns for second in log.seconds) == Totals(log).span_ns
    assert "100% with nothing to do" in "\n".join(summary(explain))
