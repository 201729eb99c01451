"""--stack and --variant on the command line, and `blktwin scenario`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blktwin.cli import main

JOB = "[r]\nfilename=${DEV}\nrw=randread\ndirect=1\nsize=1m\niodepth=1\n"
STACK = """\
job = "r.fio"
title = "Two ways"
caveats = ["None of this is measured."]
runtime = "5ms"
[env]
DEV = "/dev/loop0"
[device."/dev/nvme0n1"]
queues = 1
depth = 64
scheduler = "none"
[file."/f"]
size = "64m"
[loop.loop0]
backing-file = "/f"
direct-io = true
[[variant]]
name = "workqueue"
[[variant]]
name = "inline"
set = {"loop.loop0.policy" = "nowait_first"}
[[variant]]
name = "again"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write the stack and its job."""
    (tmp_path / "r.fio").write_text(JOB)
    path = tmp_path / "s.toml"
    path.write_text(STACK)
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """Run, and return the result's `blktwin`."""
    assert main(["run", "--output-format=json", *words]) == 0
    found = json.loads(capsys.readouterr().out)["blktwin"]
    assert isinstance(found, dict)
    return found


def test_the_files_job_runs_on_the_files_stack(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = run(capsys, "--stack", str(file))["stack"]
    assert isinstance(stack, dict)
    assert list(stack["devices"]) == ["/dev/nvme0n1"]
    assert stack["loops"]["loop0"]["policy"] == "workqueue"
    assert stack["loops"]["loop0"]["requests"] > 10
    assert (stack["file"], stack["variant"]) == (str(file), "")


def test_a_variant_is_the_file_with_changes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = run(capsys, "--stack", str(file), "--variant=inline")["stack"]
    assert isinstance(stack, dict)
    assert (stack["loops"]["loop0"]["policy"], stack["variant"]) == ("nowait_first", "inline")


def test_the_command_line_goes_before_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--runtime=2ms", "--device=/dev/nvme0n1=null", "--name=own", "--filename=/dev/loop0", "--direct=1"]
    assert main(["run", "--output-format=json", "--stack", str(file), *words, "--rw=read"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [job["jobname"] for job in result["jobs"]] == ["own"]
    assert result["jobs"][0]["job_runtime"] == 2
    assert result["blktwin"]["stack"]["devices"]["/dev/nvme0n1"]["profile"] == "null"


def test_loop_devices_have_disk_statistics(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--stack", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "  loop0: ios=" in out
    assert "blktwin: /dev/loop0: loop on /f (workqueue, direct), none" in err


@pytest.mark.parametrize(
    ("code", "words", "message"),
    [
        (2, ["--variant=x", "--name=a", "--rw=read", "--size=1m"], "--variant: means nothing without --stack"),
        (1, ["--stack={file}", "--variant=inlin"], "{file}: no variant 'inlin'; did you mean inline?"),
        (1, ["--stack={file}.x"], "{file}.x: No such file or directory"),
        (2, ["--stac={file}"], "--stac: no such option; did you mean --stack?"),
        (2, ["--stack={file}", "--output={file}"], ""),
    ],
)
def test_mistakes(code: int, words: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *(word.format(file=file) for word in words)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blktwin: " + message.format(file=file))
    assert err.count("\n") == 1
    assert file.read_text() == STACK


# -- scenario


def test_a_scenario_has_a_row_for_each_variant(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", str(file)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "Two ways"
    assert lines[1].endswith("r.fio; means over seeds 1 to 3; 5ms each")
    rows = {line.split()[0]: line for line in lines if line.split()[:1] in (["workqueue"], ["inline"], ["again"])}
    assert list(rows) == ["workqueue", "inline", "again"]
    assert "Q'2C'" in rows["workqueue"]
    assert rows["again"].endswith("no significant difference")
    assert not rows["workqueue"].endswith("difference")
    assert lines[-2:] == ["Caveats:", "  - None of this is measured."]
    assert err == ""


def test_what_losetup_would_not_tell_is_told_with_its_variants(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(STACK + 'set = {"loop.loop0.offset" = 100}\n')
    assert main(["scenario", str(file), "--seeds=1"]) == 0
    assert capsys.readouterr().err.startswith("blktwin: again: loop0: direct I/O is off although it was asked for: ")


def test_some_variants_only_and_one_seed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", str(file), "--variant=inline", "--seeds=1", "--seed=7", "--runtime=2ms"]) == 0
    out = capsys.readouterr().out
    assert "seed 7; 2ms each" in out
    assert "workqueue" not in out.replace("work of", "")


def test_a_scenario_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", str(file), "--output-format=json", "--seeds=2"]) == 0
    found = json.loads(capsys.readouterr().out)["scenario"]
    assert (found["seeds"], found["caveats"]) == ([1, 2], ["None of this is measured."])
    first, inline, again = found["variants"]
    assert first["device"] == "/dev/loop0"
    assert first["dominant_stage"]["stage"] == "Q'2C'"
    assert len(first["figures"]["d2c"]["by_seed"]) == 2
    assert again["figures"] == first["figures"]
    assert again["against_first"]["iops"] == {"ratio": 1.0, "significant": False}
    assert inline["figures"]["d2c"]["mean"] < first["figures"]["d2c"]["mean"]


@pytest.mark.parametrize(("within", "code", "text"), [(1, 3, "beyond 1%"), (10**9, 0, "")])
def test_figures_of_others_stand_beside_ours(
    within: int, code: int, text: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(STACK + f'[expect.inline]\niops = 3\nwithin = {within}\nsource = "a dream"\n')
    assert main(["scenario", str(file), "--seeds=1"]) == code
    out = capsys.readouterr().out
    (row,) = (line for line in out.splitlines() if line.startswith("inline iops"))
    assert "a dream" in row
    assert text in row


def test_a_variant_that_breaks_a_rule_is_stopped_and_the_others_run(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.with_name("r.fio").write_text(
        JOB.replace("randread", "randrw") + "ioengine=libaio\niodepth=16\niodepth_batch=16\n"
    )
    file.write_text(STACK + '[[variant]]\nname = "exact"\nset = {"loop.loop0.policy" = "rfc_exact"}\n')
    assert main(["scenario", str(file), "--seeds=1", "--variant=exact", "--variant=inline"]) == 1
    out = capsys.readouterr().out
    assert "exact was stopped: " in out
    (row,) = (line for line in out.splitlines() if line.startswith("inline "))
    assert float(row.split()[1]) > 1000


@pytest.mark.parametrize(
    ("code", "words", "message"),
    [
        (2, ["{file}", "--output-format=terse"], "--output-format: unknown format 'terse': normal or json"),
        (2, ["{file}", "--seeds=0"], "--seeds: 0 is out of range: 1 to 1000"),
        (1, ["{file}", "--variant=agin"], "{file}: no variant 'agin'; did you mean again?"),
        (1, ["{file}.x"], "{file}.x: No such file or directory"),
        (2, ["{file}", "--runtime=x"], "--runtime: "),
    ],
)
def test_mistakes_in_a_scenario(
    code: int, words: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", *(word.format(file=file) for word in words)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blktwin: " + message.format(file=file))


def test_a_job_repeats_its_work_for_as_long_as_the_file_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """time_based is good with a runtime from wherever; without any it means nothing, and is told."""
    file.with_name("r.fio").write_text(JOB.replace("size=1m", "size=8k") + "time_based\n")
    assert main(["run", "--stack", str(file), "--output-format=json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["jobs"][0]["read"]["runtime"] in (5, 6)
    assert "time_based" not in err
    file.write_text(STACK.replace('runtime = "5ms"\n', ""))
    assert main(["run", "--stack", str(file), "--output-format=json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["jobs"][0]["read"]["total_ios"] == 2
    assert "job r: time_based has no effect without runtime=" in err


@pytest.mark.parametrize("command", ["scenario", "run"])
def test_no_result_takes_the_place_of_what_was_read(
    command: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cgroups = file.with_name("c.toml")
    cgroups.write_text('[cgroup."/x"]\njobs = ["r"]\n')
    file.write_text('cgroups = "c.toml"\n' + STACK)
    for path in (file, file.with_name("r.fio"), cgroups):
        before = path.read_text()
        words = ["--stack", str(file)] if command == "run" else [str(file), "--seeds=1"]
        assert main([command, *words, "--output", str(path)]) == 2
        assert capsys.readouterr().err == f"blktwin: --output: {path} is read by this run, and would be lost\n"
        assert path.read_text() == before


def test_a_file_without_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.toml"
    path.write_text('title = "x"\n')
    assert main(["scenario", str(path)]) == 2
    assert capsys.readouterr().err == f'blktwin: {path}: has no job: job = "FILE.fio"\n'
