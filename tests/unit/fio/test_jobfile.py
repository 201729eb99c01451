"""The grammar of job files and of jobs on the command line, rule by rule."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from blktwin.errors import ConfigError, UsageError
from blktwin.fio.cmdline import is_job_option, split_arguments
from blktwin.fio.jobfile import load, machine_keywords
from blktwin.fio.spec import JobPlan

Load = Callable[..., JobPlan]
HEAD = "[global]\nioengine=null\nsize=64k\n"


@pytest.fixture
def job(tmp_path: Path) -> Load:
    """Give a function that writes text to a file and loads it."""

    def write_and_load(text: str, *, sections: Sequence[str] = (), env: Mapping[str, str] | None = None) -> JobPlan:
        path = tmp_path / "t.fio"
        path.write_bytes(text.encode())
        return load([str(path)], [], sections=sections, env=env or {})

    return write_and_load


def test_globals_hold_for_sections_below(job: Load) -> None:
    """A later [global] adds to the earlier one, for later jobs only."""
    plan = job(HEAD + "[a]\n[global]\nbs=8k\n[b]\n[globalx]\niodepth=4\n[c]\nbs=1k\n")
    assert [(j.name, j.bs_min[0], j.iodepth) for j in plan.jobs] == [("a", 4096, 1), ("b", 8192, 1), ("c", 1024, 4)]
    assert plan.global_options == {"ioengine": "null", "size": "64k", "bs": "8k", "iodepth": "4"}


def test_comments_and_blanks(job: Load) -> None:
    """; and # end a line anywhere, blanks around it do not count."""
    plan = job("; x\n\n  # y\n" + HEAD + "\t[a] ; z\n  bs=8k # w\n;bs=1k\niodepth=2;bs=1k\n \t\n")
    assert plan.jobs[0].options == {"bs": "8k", "iodepth": "2"}


def test_bare_options_and_aliases(job: Load) -> None:
    """A bare flag is true and not listed; an alias is listed by its option's name."""
    plan = job(HEAD + "[a]\ngroup_reporting\nblocksize=8k\nreadwrite=randread\nthread=0\n")
    spec = plan.jobs[0]
    assert spec.group_reporting
    assert not spec.thread
    assert spec.options == {"bs": "8k", "rw": "randread", "thread": "0"}


def test_crlf_and_no_newline_at_the_end(job: Load) -> None:
    """A DOS file reads the same."""
    plan = job(HEAD.replace("\n", "\r\n") + "[a]\r\nbs=8k\r\n[b]\r\nbs=1k")
    assert [(j.name, j.bs_min[0]) for j in plan.jobs] == [("a", 8192), ("b", 1024)]


def test_long_line_and_same_section_names(job: Load) -> None:
    """Lines have no limit; two sections may have one name."""
    names = ":".join(f"/dev/disk{n}" for n in range(2000))
    plan = job(HEAD + f"[a]\nfilename={names}\n[a]\n")
    assert len(plan.jobs[0].filenames) == 2000
    assert [j.name for j in plan.jobs] == ["a", "a"]


def test_environment(job: Load) -> None:
    """${VAR} is replaced anywhere, an unset one by nothing; a lone ${ stays."""
    plan = job(HEAD + "[a]\n${KEY}s=${SIZE}${NOPE}\ndescription=x${\n", env={"KEY": "b", "SIZE": "8k"})
    assert plan.jobs[0].bs_min[0] == 8192
    assert plan.jobs[0].options == {"bs": "8k", "description": "x${"}


def test_keywords_and_arithmetic(job: Load) -> None:
    """$pagesize is a number, computed with; a remark says that this machine decided."""
    page = machine_keywords()["pagesize"]
    plan = job(HEAD + "[a]\nsize=2*$pagesize\nio_size=(4k+4k)\nruntime=(2*500000)\n")
    spec = plan.jobs[0]
    assert spec.size_bytes == 2 * page
    assert spec.options["size"] == str(2 * page)
    assert spec.io_size_bytes == 8192
    assert spec.runtime_ns == 1_000_000_000
    assert any("$pagesize of this machine" in note for note in plan.notes)


def test_include(job: Load, tmp_path: Path) -> None:
    """An included file is found beside the file that includes it, and may include others."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.fio").write_text("; c\nbs=8k\ninclude two.fio\n")
    (tmp_path / "parts" / "two.fio").write_text("iodepth=3")
    plan = job(HEAD + "[a]\nrw=write\ninclude parts/one.fio\nnumjobs=1\n[b]\n")
    assert plan.jobs[0].options == {"rw": "write", "bs": "8k", "iodepth": "3", "numjobs": "1"}
    assert plan.jobs[1].options == {}


def test_include_that_includes_itself(job: Load, tmp_path: Path) -> None:
    """It ends in an error."""
    (tmp_path / "loop.fio").write_text("include loop.fio\n")
    with pytest.raises(ConfigError, match=r"loop\.fio:1: include: nested more than"):
        job(HEAD + "[a]\ninclude loop.fio\n")


def test_included_section(job: Load, tmp_path: Path) -> None:
    """An included file has no sections; the error points into it."""
    (tmp_path / "sections.fio").write_text("bs=4k\n[x]\n")
    with pytest.raises(ConfigError, match=r"sections\.fio:2: \[x\]: an included file cannot start a new section"):
        job(HEAD + "[a]\ninclude sections.fio\n")


def test_section_choice(job: Load) -> None:
    """--section keeps the named jobs and every [global]; lines of others are not even read."""
    text = HEAD + "[a]\nnonsense\n[b]\n[global]\nbs=8k\n[c]\n"
    plan = job(text, sections=["c", "b"])
    assert [(j.name, j.bs_min[0]) for j in plan.jobs] == [("b", 4096), ("c", 8192)]
    with pytest.raises(ConfigError, match="t.fio: --section: no job section 'd'$"):
        job(text, sections=["d"])
    with pytest.raises(ConfigError, match="cannot be the only section"):
        job(text, sections=["global"])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """- is standard input, once."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((HEAD + "[a]\n").encode())))
    assert [j.name for j in load(["-"], [], env={}).jobs] == ["a"]
    with pytest.raises(ConfigError, match="once only"):
        load(["-", "-"], [], env={})


def test_several_files(tmp_path: Path) -> None:
    """Each further file starts from fio's defaults, in a new group, behind a stonewall."""
    one, two = tmp_path / "1.fio", tmp_path / "2.fio"
    one.write_text(HEAD + "bs=8k\n[a]\n[b]\n")
    two.write_text("[c]\nioengine=null\nsize=4k\n[d]\nioengine=null\nsize=4k\n")
    plan = load([str(one), str(two)], ["--iodepth=4"], env={})
    seen = [(j.name, j.group_id, j.stonewall, j.iodepth, j.bs_min[0]) for j in plan.jobs]
    assert seen == [
        ("a", 0, False, 4, 8192),
        ("b", 0, False, 4, 8192),
        ("c", 1, True, 1, 4096),
        ("d", 1, False, 1, 4096),
    ]
    assert plan.global_options == {}


def test_command_line_jobs() -> None:
    """--name starts a job; what comes before the first one, or after --name=global, is global."""
    args = "--ioengine=null --size=8k --name=a --rw write --name=global --bs=8k --name=b --thread --description=x;#y"
    plan = load([], args.split(), env={})
    assert [(j.name, j.rw, j.bs_min[0], j.thread) for j in plan.jobs] == [
        ("a", "write", 4096, False),
        ("b", "read", 8192, True),
    ]
    assert plan.jobs[1].options == {"name": "b", "description": "x;#y"}
    assert plan.global_options == {"ioengine": "null", "size": "8k", "name": "global", "bs": "8k"}


def test_command_line_before_files(tmp_path: Path) -> None:
    """Jobs of the command line come first and share the group with the first file."""
    path = tmp_path / "1.fio"
    path.write_text("[x]\nioengine=null\nsize=4k\n")
    plan = load([str(path)], ["--name=q", "--ioengine=null", "--size=4k"], env={})
    assert [(j.name, j.group_id, j.stonewall) for j in plan.jobs] == [("q", 0, False), ("x", 0, False)]


def test_command_line_has_no_substitution() -> None:
    """The shell's business: ${HOME} stays as it is, as in fio."""
    plan = load([], ["--name=a", "--ioengine=null", "--size=4k", "--description=${HOME}"], env={"HOME": "x"})
    assert plan.jobs[0].description == "${HOME}"


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        (["--name=a", "--blocksise=4k"], r"--blocksise: fio has no such option; did you mean --blocksize\?"),
        (["--name=a", "--bs"], "--bs: needs a value"),
        (["--name="], "--name: needs a value"),
        (["--name=a", "rw=write"], "'rw=write' is neither an option"),
        (["--name=a", "--thread", "1"], "'1' is neither an option"),
        (["--", "x"], "neither an option"),
    ],
)
def test_command_line_errors(args: list[str], fragment: str) -> None:
    """They are usage errors: exit 2."""
    with pytest.raises(UsageError, match=fragment) as caught:
        load([], args, env={})
    assert caught.value.exit_code == 2


def test_split_arguments() -> None:
    """Files and job options may be mixed."""
    tokens = ["a.fio", "--name=x", "--bs", "4k", "--thread", "b.fio", "-", "-rw=read", "--", "--c.fio"]
    assert split_arguments(tokens) == (
        ["a.fio", "b.fio", "-", "--c.fio"],
        ["--name=x", "--bs", "4k", "--thread", "-rw=read"],
    )
    assert is_job_option("--bs=4k")
    assert not is_job_option("--output=x")
    assert not is_job_option("a.fio")
