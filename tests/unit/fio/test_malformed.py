"""Bad job files: each gives one clear line with file, line and option, exit 1 or 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from blktwin.errors import ConfigError
from blktwin.fio.jobfile import load

J = "[j]\nioengine=null\nsize=1m\n"

# text -> what the one line must say after the file's name
BAD: list[tuple[str, str]] = [
    ("rw=read\n[j]\n", ":1: rw=read: an option must stand below a [section]"),
    ("\n\nnonsense", ":3: nonsense: an option must stand below a [section]"),
    ("[j\nrw=read\n", ":1: [j: the section header has no closing ] at its end"),
    ("[a] b\n", ":1: [a] b: the section header has no closing ]"),
    ("[a;b]\n", ":1: [a: the section header has no closing ]"),
    ("[]\n", ":1: []: the section has no name"),
    ("", ": no job is defined"),
    ("[global]\nrw=read\n", ": no job is defined"),
    (J + "blocksise=4k\n", ":4: blocksise: fio has no such option; did you mean blocksize?"),
    (J + "= 5\n", ":4: fio has no such option"),
    (J + "zq9\n", ":4: zq9: fio has no such option"),
    (J + "\nbs=\n", ":5: bs: needs a value"),
    (J + "bs\n", ":4: bs: needs a value"),
    (J + "bs=abc\n", ":4: bs: 'abc' is not a number"),
    (J + "bs=0\n", ":4: bs: '0' is too small: at least 1 is needed"),
    (J + "bs=-4k\n", ":4: bs: '-4k' is too small"),
    (J + "blocksize=50%\n", ":4: blocksize: a percentage is not possible here"),
    (J + "bs=99999999999999999999\n", ":4: bs: 99999999999999999999 is too big"),
    (J + "bs=(4k*2\n", ":4: bs: the expression '(4k*2' ends too early"),
    (J + "bs=(4k/0)\n", ":4: bs: division by zero"),
    (J + "rw=rndread\n", ":4: rw: 'rndread' is not one of read write"),
    (J + "rw\n", ":4: rw: needs a value"),
    (J + "rw=randread:x\n", ":4: rw: 'x' is not a number of I/Os"),
    (J + "direct=yes\n", ":4: direct: 'yes' is not 0 or 1"),
    (J + "direct=2\n", ":4: direct: '2' is not 0 or 1"),
    (J + "iodepth=0\n", ":4: iodepth: '0' is too small: at least 1"),
    (J + "numjobs=0\n", ":4: numjobs: 0 clones are not possible"),
    (J + "numjobs=1m\n", ":4: numjobs: 1048576 clones are not possible: 1 to 4096"),
    (J + "runtime=soon\n", ":4: runtime: 'soon' is not a time"),
    (J + "prio=8\n", ":4: prio: '8' is too big: at most 7 is possible"),
    (J + "nice=20\n", ":4: nice: '20' is too big"),
    (J + "cgroup_weight=5\n", ":4: cgroup_weight: '5' is too small: at least 100"),
    (J + "bsrange=4k\n", ":4: bsrange: '4k' is not a range"),
    (J + "bssplit=4k/60:8k/50:16k:32k\n", ":4: bssplit: percentages add to 110, more than 100"),
    (J + "bssplit=4k/50:x/50\n", ":4: bssplit: 'x' is not a number"),
    (J + "percentile_list=50:x\n", ":4: percentile_list: 'x' is not a number"),
    (J + "random_distribution=zipf:1\n", ":4: random_distribution: zipf theta 1 is not possible"),
    (
        J + "random_distribution=zoned:50/5:30/15\n",
        ":4: random_distribution: access percentages of the zones add to 80",
    ),
    (J + "random_distribution=gauss\n", ":4: random_distribution: 'gauss' is not one of"),
    (J + "rate=1k\nrate_iops=3\n", ":5: rate_iops: rate and rate_iops exclude each other"),
    (J + "rate_min=2k\nrate=1k\n", ":4: rate_min: the minimum read rate is above the rate itself"),
    (J + "bs=2m\n", ":3: size: size 1048576 is smaller than the smallest block, 2097152"),
    (J + "io_size=150%\n", ":4: io_size: '150%' is too big: at most 100"),
    (J + "wait_for=k\n", ":4: wait_for: no job 'k' stands above this one"),
    (J + "include nope.fio\n", ":4: include: "),
    (J + "include\n", ":4: include: needs a file name"),
    (J + "hipri\n", ":4: hipri: an option of ioengine pvsync2 sg io_uring"),
    ("[j]\nioengine=libaoi\n", ":2: ioengine: fio has no engine 'libaoi'; did you mean libaio?"),
    ("[j]\nioengine=mmap\n", ":2: ioengine: engine mmap is not modelled: use one of psync"),
    ("[j]\nioengine=net\nport=80\n", ":2: ioengine: engine net is not modelled"),
    (J + "runtime=999999d\n", ":4: runtime: longer than ten years"),
    (J + "thinktime=9223372036854775807\n", ":4: thinktime: longer than ten years"),
    ("[j]\nrw=read\n", ":1: [j]: buffered I/O (direct=0 is fio's default) is modelled only for psync"),
    ("[j]\ndirect=0\n", ":2: direct: buffered I/O (direct=0"),
    (J + "verify=md5\n", ":4: verify: not modelled yet: "),
    (J + "exec_prerun=reboot\n", ":4: exec_prerun: refused: would run a program on this machine"),
    (J + "size=3z\n", ":4: size: not modelled yet: sizes in zones"),
    (J + "filesize=1k-2k\n", ":4: filesize: not modelled yet: a range of file sizes"),
    ("[j]\nbs=4k\0\n", ":2: not a text file (it has NUL bytes)"),
    (J + "size=8k*$ncpus\n", ":4: size: unit 'k' is unknown in the expression"),
    (J + "kb_base=1023\n", ":4: kb_base: '1023' is not one of 1024 1000"),
]


@pytest.mark.parametrize(("text", "want"), BAD, ids=[want[:60] for _, want in BAD])
def test_one_clear_line(tmp_path: Path, text: str, want: str) -> None:
    """The message names the file, the line, the option and what is wrong."""
    path = tmp_path / "bad.fio"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load([str(path)], [], env={})
    message = str(caught.value)
    assert f"bad.fio{want}" in message
    assert "\n" not in message
    assert len(message) < 400
    assert caught.value.exit_code in (1, 2)


def test_there_are_enough_of_them() -> None:
    """Thirty, and more."""
    assert len({text for text, _ in BAD}) == len(BAD) > 50


@pytest.mark.parametrize("name", ["missing.fio", ".", "x\0y"])
def test_unreadable(tmp_path: Path, name: str) -> None:
    """A file that cannot be read."""
    with pytest.raises(ConfigError, match="cannot read the job file"):
        load([str(tmp_path / name)], [], env={})
