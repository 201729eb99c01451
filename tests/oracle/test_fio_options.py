"""Job files and command lines against real fio 3.33: the same jobs, groups and options, and the same values."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from oracles import require_fio

from blktwin.errors import ConfigError
from blktwin.fio.jobfile import load
from blktwin.fio.options import TABLE, find
from blktwin.fio.showcmd import render
from blktwin.fio.spec import JobPlan
from blktwin.fio.values import Number, parse

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.fio"))
DATA = sorted((ROOT / "tests" / "data" / "jobs").glob("*.fio"))
ENV = {
    "RUNTIME": "20ms",
    "ENGINE": "psync",
    "DEPTH": "1",
    "FILE": "/dev/loop0",
    "RW": "write",
    "PATH": os.environ.get("PATH", ""),
}

CASE_8 = "--direct=1 --bs=4k --runtime=10 --time_based --numjobs=12 {engine} --group_reporting --name=job --rw=rw"
CASE_15 = (
    "--time_based --name=benchmark --size=50G --rw=randwrite --runtime=60 --filename=/dev/nvme1n1 --ioengine=psync"
    " --iodepth=1 --fsync=64 --blocksize=4k --numjobs=4 --group_reporting"
)
COMMAND_LINES = [
    CASE_8.format(engine="--ioengine=psync --iodepth=1"),
    CASE_8.format(engine="--ioengine=libaio --iodepth=16"),
    CASE_15,
    "--name=global --rw=randread --bs 8k --name=a --numjobs=3 --name=b --readwrite=write --blocksize=4k,8k",
    "--name=a --name=zz --numjobs=2 --description=x;y --name=globals --iodepth=4 --name=b --stonewall",
    "--kb_base=1000 --name=a --bs=4k --name=b --kb_base=1024 --bs=4kib --new_group",
]

pytestmark = pytest.mark.oracle


def fio(*args: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the real fio."""
    return subprocess.run(
        [require_fio(), *args], cwd=cwd, env=ENV if env is None else env, capture_output=True, text=True, timeout=60
    )


def tamed(text: str) -> str:
    """Make job text that a null-engine fio runs in no time: no device, no long run, no merged reports."""
    text = re.sub(r"(?m)^\s*(ioengine|runtime|group_reporting|exitall).*\n", "", text)
    text = re.sub(r"(?m)^(\s*startdelay=\d+)$", r"\1ms", text)
    text = re.sub(r"(?m)^(\[global.*)$", r"\1\nioengine=null\nruntime=10ms", text, count=1)
    return text if "[global" in text else "[global]\nioengine=null\nruntime=10ms\n" + text


def check_jobs(tmp_path: Path, paths: Sequence[str], args: Sequence[str], sections: Sequence[str] = ()) -> None:
    """Compare global options, names, groups and job options with fio's JSON, and header lines with typed values."""
    command = [*(f"--section={name}" for name in sections), *args, *paths]
    run = fio("--output-format=json,normal", *command, cwd=tmp_path)
    assert "{" in run.stdout, run.stderr
    document, end = json.JSONDecoder().raw_decode(run.stdout[run.stdout.index("{\n") :])
    plan = load([str(tmp_path / path) for path in paths], args, sections=sections, env=ENV, require_runnable=False)
    assert plan.global_options == document.get("global options", {})
    fios = [(job["jobname"], job["groupid"], job.get("job options", {})) for job in document["jobs"]]
    assert [(spec.name, spec.group_id, spec.options) for spec in plan.jobs] == fios
    check_headers(run.stdout, plan)


def check_headers(text: str, plan: JobPlan) -> None:
    """Compare `j: (g=0): rw=read, bs=(R) 4096B-4096B, ...` lines (one per section) with the typed jobs."""
    form = r"(?m)^(.*): \(g=(\d+)\): rw=(\w+), bs=\(R\) (\S+), \(W\) (\S+),(?: \(T\) (\S+),)? .*iodepth=(\d+)$"
    headers = re.findall(form, text)
    firsts = [spec for spec in plan.jobs if spec.clone_index == 0]
    assert len(headers) == len(firsts)
    for (name, group, rw, *sizes, depth), spec in zip(headers, firsts, strict=True):
        assert (name, int(group), rw, int(depth)) == (spec.name, spec.group_id, spec.rw, spec.iodepth)
        for at, size in enumerate(sizes):
            low, high = size.split("-")
            assert size_of(low) == pytest.approx(spec.bs_min[at], rel=0.001)
            assert size_of(high) == pytest.approx(spec.bs_max[at], rel=0.001)


def size_of(text: str) -> float:
    """Read 4096B, 16.0KiB."""
    match = re.fullmatch(r"([\d.]+)([KMGT]?)(i?)B", text)
    assert match is not None, text
    base = 1024 if match.group(3) else 1000
    return float(match.group(1)) * float(base ** " KMGT".index(match.group(2) or " "))


@pytest.mark.parametrize("path", EXAMPLES + DATA, ids=lambda path: path.name)
def test_showcmd(path: Path, tmp_path: Path) -> None:
    """--showcmd, byte for byte."""
    run = fio("--showcmd", str(path), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert render([str(path)], env=ENV) == run.stdout


def test_showcmd_of_several_files_with_sections(tmp_path: Path) -> None:
    """One line per file; --section and options of the command line reach the first file only."""
    paths = [str(path) for path in (DATA[0], DATA[1], DATA[0])]
    for extra, sections in ((["--bs=8k"], ["dos"]), (["--name=x", "--rw=write"], []), ([], ["no newline at the end"])):
        run = fio("--showcmd", *(f"--section={name}" for name in sections), *extra, *paths, cwd=tmp_path)
        assert render(paths, extra, sections, env=ENV) == run.stdout


@pytest.mark.parametrize("path", EXAMPLES + DATA, ids=lambda path: path.name)
def test_job_files(path: Path, tmp_path: Path) -> None:
    """The same jobs with the same options in a real run of the null engine."""
    if (path.parent / "parts").exists():
        shutil.copytree(path.parent / "parts", tmp_path / "parts")
    with path.open(newline="") as file:
        text = file.read()
    (tmp_path / "t.fio").write_text(tamed(text.replace("\r\n", "\n")))
    check_jobs(tmp_path, ["t.fio"], [])


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_command_lines(line: str, tmp_path: Path) -> None:
    """The 12 jobs of public reports, and the corners of the command line."""
    words = re.sub(r"--ioengine=\S+|--runtime=\S+|--time_based|--group_reporting|--size=\S+", "", line).split()
    args = ["--ioengine=null", "--size=1m", "--runtime=10ms", *words]
    check_jobs(tmp_path, [], args)


GROUPS = """[global]
ioengine=null
size=8k
stonewall
[a]
numjobs=3
name=zz
[b]
new_group
[c]
stonewall=0
[d]
new_group
stonewall=0
numjobs=2
[e]
stonewall=0
wait_for=d
"""


def test_groups_files_and_sections(tmp_path: Path) -> None:
    """groupid over stonewall, new_group, clones and files; --section; jobs of the command line before files."""
    (tmp_path / "1.fio").write_text(GROUPS)
    (tmp_path / "2.fio").write_text("[x]\nioengine=null\nsize=4k\n[y]\nioengine=null\nsize=4k\nbs=1k")
    check_jobs(tmp_path, ["1.fio"], [])
    check_jobs(tmp_path, ["2.fio", "1.fio", "2.fio"], ["--bs=512"])
    check_jobs(tmp_path, ["2.fio"], ["--name=q", "--ioengine=null", "--size=4k"])
    check_jobs(tmp_path, ["2.fio", "1.fio"], ["--ioengine=null", "--size=4k"], ["y"])
    check_jobs(tmp_path, ["2.fio"], ["--name=x", "--ioengine=null", "--size=4k", "--name=y", "--rw=write"], ["y"])


def test_clone_files(tmp_path: Path) -> None:
    """Names of files that fio makes up, in fio's order of clones."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    text = "[j/k]\nioengine=null\nsize=4k\nnumjobs=4\ndirectory=a:b\n[l]\nioengine=null\nsize=4k\nfilename=x:y\\:z\n"
    (tmp_path / "t.fio").write_text(text)
    run = fio("--debug=file", "t.fio", cwd=tmp_path)
    added = re.findall(r'file 0x[0-9a-f]+ "(.*)" added at', run.stdout)
    plan = load([str(tmp_path / "t.fio")], [], env={})
    assert [name for spec in plan.jobs for name in spec.filenames] == added


NUMBERS = (
    "5 4k 4K 4kb 4kB 4ki 4kib 4KiB 2m 3g 1t 1p 4b 4x 4kx 0x10 0x10k 0X1f 010 +4k 4.5k 1e3 4k/2 abc k 4mib 7gi"
    " 99999999999999999999"
).split()
TIMES = (
    "5 5s 5sec 5m 5M 5h 1d 5ms 5msec 5us 5usec 5MS 1.5 1m5 5x 0x10 0x10s abc 5S 5- 1s-5s 2:3s 1-5 900ms:1200ms 9ms-7"
).split()
TEXTS: list[tuple[str, list[str]]] = [
    ("offset_align", [*NUMBERS, "4 k", " 8k"]),
    ("number_ios", NUMBERS),
    ("size", [*NUMBERS, "50%", "100%", "0%", "5%x"]),
    ("thinktime", TIMES),
    ("runtime", [*TIMES, "1 s", " 5s"]),
    ("thinktime_iotime", TIMES),
    ("startdelay", TIMES),
]


@pytest.mark.parametrize(("name", "texts"), TEXTS, ids=[name for name, _ in TEXTS])
def test_values(name: str, texts: list[str], tmp_path: Path) -> None:
    """Numbers, units and times mean what fio's own debug output says they mean."""
    (tmp_path / "t.fio").write_text("[j]\nioengine=null\n" + "".join(f"{name}={text}\n" for text in texts))
    run = fio("--debug=parse", "--parse-only", "t.fio", cwd=tmp_path)
    failed = set(re.findall(rf"failed parsing {name}=(.*)", run.stdout + run.stderr))
    blocks = re.split(r"parse +\d+ +handle_option=", run.stdout)
    outs = {}
    for block in blocks:
        match = re.match(rf"{name}, ptr=(.*)\n", block)
        if match is not None:
            outs[match.group(1)] = [int(out) for ok, out in re.findall(r"ret=(\d), out=(\d+)", block) if ok == "0"]
    option = find(name)
    assert option is not None
    for text in texts:
        if text in failed:
            with pytest.raises(ConfigError):
                parse(option, text)
            continue
        value = parse(option, text).value
        if isinstance(value, tuple):
            assert value == (min(outs[text][0], outs[text][-1]), max(outs[text][0], outs[text][-1])), text
        elif isinstance(value, Number):
            assert (2**64 - 1 - value.value if value.percent else value.value) in outs[text], text
        else:
            assert value == outs[text][0], text


def test_table_has_every_option_with_fio_facts(tmp_path: Path) -> None:
    """Name, alias, default and choices are those of --cmdhelp, the engines those of --enghelp."""
    names = [line.split(":")[0].split()[0] for line in fio("--cmdhelp=all", cwd=tmp_path).stdout.splitlines() if line]
    engines = [line.strip() for line in fio("--enghelp", cwd=tmp_path).stdout.splitlines()[1:]]
    assert len(names) == 217
    with ThreadPoolExecutor(4) as pool:
        helps = pool.map(lambda name: fio(f"--cmdhelp={name}", cwd=tmp_path).stdout, names)
        lists = pool.map(lambda engine: fio(f"--enghelp={engine}", cwd=tmp_path).stdout, engines)
    for name, text in zip(names, helps, strict=True):
        check_facts(name, text)
    for engine, text in zip(engines, lists, strict=True):
        for name in re.findall(r"(?m)^ *(\S+) *: ", text):
            option = find(name)
            assert option is not None, name
            assert engine in option.engines, (engine, name)


def check_facts(name: str, text: str) -> None:
    """Compare one row with fio's help."""
    option = find(name)
    assert option is not None, name
    assert option.name == name
    alias = re.search(r"alias: (\S+)", text)
    assert option.alias == (alias.group(1) if alias else "")
    default = re.search(r"default: (.*)", text)
    assert default is not None
    assert option.default == default.group(1).replace("no default", "").strip(), name
    if option.kind == "choice":
        choices = re.search(r"valid values: (.*(?:\n +: .*)*)", text)
        assert choices is not None, name
        assert option.choices == tuple(re.findall(r"(?m)^(?: +: )?(\S+)", choices.group(1))), name


def test_order_of_application(tmp_path: Path) -> None:
    """Which options fio applies before and after the others of a section."""
    for option in TABLE:
        if option.order == 0 or option.since:
            continue
        text = f"[j]\nrw=read\n{option.name}={option.default or [*option.choices, 'x'][0]}\nrw=write\n"
        (tmp_path / "t.fio").write_text(text)
        assert render([str(tmp_path / "t.fio")], env={}) == fio("--showcmd", "t.fio", cwd=tmp_path).stdout
