"""Jobs of a size that no machine could hold, and large ones that must load in a moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blktwin.errors import ConfigError
from blktwin.fio import compound, random_dist
from blktwin.fio.jobfile import load
from blktwin.fio.spec import JobPlan

HEAD = "[j]\nioengine=libaio\ndirect=1\nsize=1m\n"


def read(text: str, tmp_path: Path, sections: tuple[str, ...] = ()) -> JobPlan:
    """Load a job file."""
    (tmp_path / "t.fio").write_text(text)
    return load([str(tmp_path / "t.fio")], [], sections=sections, env={})


@contextmanager
def quick(limit_s: float) -> Iterator[None]:
    """Fail when it takes more CPU time than that."""
    began = time.process_time()
    yield
    assert time.process_time() - began < limit_s


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ("iodepth=65537", ":5: iodepth: 65537 is too big: at most 65536"),
        ("iodepth=1k\nnumjobs=1025", ":5: iodepth: more than 1048576 I/Os in flight over all jobs"),
        ("filename=" + "a:" * 1025 + "\nnumjobs=1024", ":5: filename: more than 1048576 files in all"),
        ("rate_iops=4g", ":5: rate_iops: '4g' is too big"),
        ("rate_iops=4000m\nbs=1m", ":5: rate_iops: reads of more than 8 TiB/s"),
        ("rate=1t\nthinktime=3650d\nrate_ignore_thinktime=1", ":7: rate_ignore_thinktime: too much to forgive"),
        ("rate=9t", ":5: rate: reads of more than 8 TiB/s"),
        ("random_distribution=zipf:50", "zipf theta 50 is not possible: 0 to 16"),
        ("random_distribution=zipf:1e999", "zipf theta inf is not possible"),
        ("bssplit=9000000t/100", ":5: bssplit: '9000000t' is too big"),
        ("bsrange=1k-9000000t", ":5: bsrange: '9000000t' is too big"),
        ("rw=read:9223372036854775807", ":5: rw: '9223372036854775807' is too big: at most 2305843009213693952"),
        ("random_distribution=zoned_abs:50/-5:50/10", "'-5' is too small"),
        ("random_distribution=zoned_abs:50/4096p:50/1024p", "sizes of the zones add to"),
        ("random_distribution=pareto:1e-17", "pareto input 1e-17 is out of range"),
        ("wait_for=jj", "no job 'jj' stands above this one"),
        ("[jb1]\n[k]\nwait_for=jb2", "no job 'jb2' stands above this one; did you mean jb1?"),
    ],
)
def test_one_clear_line(lines: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(HEAD + lines + "\n", tmp_path)
    assert hint in str(caught.value)


@pytest.mark.parametrize("text", ["zipf:16", "zipf:0", "zipf:0.999", "pareto:1e-9", "pareto:0.999999"])
def test_the_ends_of_the_ranges_draw_numbers(text: str) -> None:
    dist = compound.distributions(text, 1024)[0]
    kind = random_dist.Zipf if dist.kind == "zipf" else random_dist.Pareto
    for blocks in (3, 1 << 33, 1 << 60):
        source = kind(blocks, dist.theta, dist.center, 7)
        assert all(0 <= source.next_block() < blocks for _ in range(200))


def test_the_sum_of_a_zipf_is_computed_once() -> None:
    random_dist.Zipf(1 << 29, 1.2, -1.0, 1)
    with quick(0.5):
        for seed in range(100):
            random_dist.Zipf(1 << 29, 1.2, -1.0, seed)


def test_all_that_is_not_modelled_is_named_at_once(tmp_path: Path) -> None:
    text = "[global]\nverify=md5\nnrfiles=4\n" + HEAD + "[k]\nioengine=mmap\n[l]\nexec_prerun=true\nioengine=libaio\n"
    with pytest.raises(ConfigError) as caught:
        read(text, tmp_path)
    line = str(caught.value)
    assert line.count("\n") == 0
    assert f"{tmp_path}/t.fio:2: verify: not modelled yet: " in line
    for name, at in (("nrfiles", 3), ("ioengine", 9), ("exec_prerun", 11)):
        assert f"{name} ({tmp_path}/t.fio:{at})" in line


def test_a_typo_in_section_is_an_error_with_the_near_match(tmp_path: Path) -> None:
    text = HEAD.replace("[j]", "[reader]") + "[writer]\nioengine=null\nsize=1m\n"
    with pytest.raises(ConfigError, match=r"t\.fio: --section: no job section 'raeder'; did you mean reader\?"):
        read(text, tmp_path, ("writer", "raeder"))
    assert [job.name for job in read(text, tmp_path, ("writer",)).jobs] == ["writer"]


def test_jobs_that_wait_for_each_other_are_an_error(tmp_path: Path) -> None:
    """Names may repeat, so a circle needs no line that points downwards."""
    rest = "ioengine=null\nsize=1m\n"
    circle = f"[b]\n{rest}[a]\n{rest}wait_for=b\n[b]\n{rest}wait_for=a\n"
    with pytest.raises(ConfigError, match=r"t\.fio:4: wait_for: \[a\] never starts: jobs called 'b' wait"):
        read(circle, tmp_path)
    chain = f"[b]\n{rest}[a]\n{rest}wait_for=b\n[c]\n{rest}wait_for=a\n[d]\n{rest}wait_for=b\n"
    assert len(read(chain, tmp_path).jobs) == 4
    with quick(2):
        read("".join(f"[{n}]\n{rest}wait_for={n - 1}\n" for n in range(3000)).replace("wait_for=-1\n", ""), tmp_path)


def test_an_include_bomb_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "0.fio").write_text("bs=4k\n")
    for at in range(1, 10):
        (tmp_path / f"{at}.fio").write_text(f"include {at - 1}.fio\n" * 10)
    with quick(5), pytest.raises(ConfigError, match="include: more than 1000 files are included"):
        read(HEAD + "include 9.fio\n", tmp_path)


def test_all_files_together_have_a_limit(tmp_path: Path) -> None:
    (tmp_path / "big.fio").write_text("#" * (6 << 20))
    with pytest.raises(ConfigError, match="include: .*more than 16 MiB of job files"):
        read(HEAD + "include big.fio\n" * 3, tmp_path)


def test_the_plan_knows_every_file_that_was_read(tmp_path: Path) -> None:
    (tmp_path / "empty.fio").write_text("# nothing\n")
    plan = read(HEAD + "include empty.fio\n", tmp_path)
    assert plan.files == [f"{tmp_path}/t.fio", f"{tmp_path}/empty.fio"]


def test_a_long_list_of_files_loads_in_a_moment(tmp_path: Path) -> None:
    with quick(3):
        names = read(HEAD + "filename=" + "x:" * 500_000 + "\n", tmp_path).jobs[0].filenames
        assert len(names) == 500_000
    with quick(3):
        plan = read("[global]\n" + "filename=a\n" * 20_000 + HEAD + "numjobs=50\n", tmp_path)
    assert len(plan.jobs[49].filenames) == 20_000


def test_thousands_of_clones_load_in_a_moment(tmp_path: Path) -> None:
    with quick(3):
        assert len(read(HEAD + "group_reporting\nlat_percentiles=1\nnumjobs=4096\n", tmp_path).jobs) == 4096
