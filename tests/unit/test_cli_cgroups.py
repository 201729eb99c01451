"""--cgroups on the command line: what the result says of it, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blktwin.cli import main

ROOT = Path(__file__).parents[2]
JOBS = [
    word
    for name in ("t1", "t2")
    for word in f"--name={name} --rw=randread --direct=1 --filename=/dev/nvme0n1 --size=1m --runtime=1s".split()
]
GOOD = """
[cgroup."/a"]
io.bfq.weight = 30
jobs = ["t1"]
[[at]]
time = "1ms"
move = "t2"
to = "/a"
[[at]]
time = "1h"
remove = "/a"
"""


def run(file: Path, *words: str) -> int:
    """Run two small jobs."""
    return main(["run", "--cgroups", str(file), "--output-format=json", "--scheduler=none", *words, *JOBS])


def test_the_result_has_the_cgroups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text(GOOD)
    assert run(file, "--cgroup=/base") == 0
    out, err = capsys.readouterr()
    shown = json.loads(out)["blktwin"]
    assert shown["cgroups"] == {
        "/": {"jobs": []},
        "/a": {"io.bfq.weight": 30, "jobs": ["t1", "t2"]},
        "/base": {"io.bfq.weight": 100, "jobs": ["t2"]},
    }
    assert shown["cgroup_changes"] == [{"at_ms": 1.0, "move": ["t2"], "to": "/a"}]
    assert "the weights mean nothing: no device has the scheduler bfq\n" in err
    assert f"{file}:9: 3600s never came\n" in err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD.replace("weight", "wait"), '3: cgroup."/a".io.bfq.wait: no such key; did you mean io.bfq.weight?'),
        (GOOD.replace("30", "3000"), '3: cgroup."/a".io.bfq.weight: 3000 is out of range: 1 to 1000'),
        (GOOD.replace('"t1"', '"job"'), "4: cgroup.\"/a\".jobs: no job 'job'; there are t1, t2"),
        (GOOD + "\n[", "13: not TOML: "),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    assert run(file) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"blktwin: {file}:{line}")
    assert err.count("\n") == 1


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "c.toml") == 1
    assert capsys.readouterr().err == f"blktwin: {tmp_path}/c.toml: No such file or directory\n"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    job, file = (str(ROOT / "examples" / name) for name in ("two-groups.fio", "cgroups.toml"))
    words = ["run", job, "--cgroups", file, "--runtime=5ms", "--scheduler=mq-deadline", "--output-format=json"]
    assert main(words) == 0
    groups = json.loads(capsys.readouterr().out)["blktwin"]["cgroups"]
    assert [(path, group.get("io.bfq.weight"), group["jobs"]) for path, group in groups.items()] == [
        ("/", None, []),
        ("/small", 10, ["small"]),
        ("/large", 90, ["large"]),
    ]


def test_bfq_shares_the_device_by_the_examples_weights(capsys: pytest.CaptureFixture[str]) -> None:
    job, file = (str(ROOT / "examples" / name) for name in ("two-groups.fio", "cgroups.toml"))
    assert main(["run", job, "--cgroups", file, "--runtime=80ms", "--output-format=json"]) == 0
    out, err = capsys.readouterr()
    small, large = (one["read"]["io_bytes"] for one in json.loads(out)["jobs"])
    assert 0.06 < small / (small + large) < 0.14
    assert "mean nothing" not in err


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("c1", "'c1' is not an absolute cgroup path such as /c1"),
        ("/a/../b", "'/a/../b' is not an absolute cgroup path such as /c1"),
        ("/a/./b", "'/a/./b' is not a plain path such as /a/b (no //, no . or .., no / at the end)"),
        ("/" + "x" * 256, "between two slashes"),
    ],
)
def test_cgroup_takes_paths_as_the_file_does(path: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--cgroup", path, "--name=a", "--filename=/dev/nvme0n1", "--direct=1", "--size=1m"]) == 2
    assert message in capsys.readouterr().err
