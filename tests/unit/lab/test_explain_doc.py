"""--explain bfq as a command: where its text goes, what it refuses, and that docs/bfq.md quotes what it prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from blktwin.cli import main
from blktwin.errors import UsageError

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "bfq.md"


def section(name: str) -> str:
    """Return a section of the page."""
    return PAGE.read_text().split(f"\n## {name}\n")[1].split("\n## ")[0]


def quoted(text: str) -> list[str]:
    """Return the indented blocks of a section."""
    blocks: list[str] = []
    is_inside = False
    for line in text.splitlines():
        if line.startswith("    "):
            if is_inside:
                blocks[-1] += line[4:] + "\n"
            else:
                blocks.append(line[4:] + "\n")
            is_inside = True
        elif line:
            is_inside = False
        elif is_inside:
            blocks[-1] += "\n"
    return [block.strip("\n") for block in blocks]


@pytest.mark.parametrize("rules", ["6.1", "7.2"])
def test_the_page_quotes_what_is_printed(rules: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The documented command prints the documented explanation, to the letter and to its end."""
    command, before, after = quoted(section("Why: `--explain bfq`"))
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:6] == ["blktwin", "run", "--explain", "bfq", "--rules", "6.1"]
    words[5] = rules
    assert main(words[1:]) == 0
    out = capsys.readouterr().out
    assert out.endswith("\n" + {"6.1": before, "7.2": after}[rules] + "\n")
    assert before.startswith("BFQ on /dev/nullb0: decisions")
    assert after.startswith("Summary")


def test_the_page_quotes_the_accuracy_page() -> None:
    """The rows of its last table are those of accuracy.md."""
    tables = [line.split("|")[1:-1] for line in section("Tables").splitlines() if line.startswith("|")]
    quotes = [[cell.strip() for cell in cells] for cells in tables if len(cells) == 5 and cells[1].strip().isdigit()]
    lines = (DOCS / "accuracy.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    have = [[*row[3:5], *row[7:9]] for row in rows if len(row) == 9]
    names = {row[0]: [*row[3:5], *row[7:9]] for row in reversed(rows) if len(row) == 9}
    assert len(quotes) == 6
    for name, *values in quotes:
        assert values in have, name
        if not name.startswith("..."):
            assert names[name] == values


# -- the command


JOB = "--name=w --filename=/dev/nullb0 --rw=randwrite --bs=4k --direct=1 --ioengine=psync --runtime=50ms --time_based"
DEVICE = "--device=/dev/nullb0=null,latency=100us"


def test_text_comes_after_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    """The explanation is a result: it is on stdout, behind fio's."""
    argv = ["run", DEVICE, "--scheduler=bfq", "--cgroup=/c1", "--explain=bfq", *JOB.split()]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert out.index("Run status group 0") < out.index("BFQ on /dev/nullb0: decisions") < out.index("Summary")
    assert "w in /c1" in out
    assert out.endswith(".\n")


def test_json_has_it_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON formats carry it under blktwin.explain, by device."""
    argv = ["run", DEVICE, "--scheduler=bfq", "--explain=bfq", "--output-format=json", *JOB.split()]
    assert main(argv) == 0
    document = json.loads(capsys.readouterr().out)
    told = document["blktwin"]["explain"]["/dev/nullb0"]
    assert told["requests"] == document["blktwin"]["conservation"]["completed"]
    assert told["seconds"][0]["queues"][0]["queue"] == "w in /"
    assert told["decisions"][0]["rule"] == "the only busy queue"
    assert told["decisions"][0]["counters"]["tot_busy_queues"] == 1


@pytest.mark.parametrize(
    ("extra", "error"),
    [
        (["--explain=bqf", "--scheduler=bfq"], "nothing explains 'bqf'; did you mean bfq?"),
        (["--explain=bfq", "--scheduler=none"], "no device runs bfq (/dev/nullb0 has none); try --scheduler bfq"),
        (["--explain=bfq", "--scheduler=bfq", "--output-format=terse"], "terse has no place for it"),
    ],
)
def test_errors(extra: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong use is one line on stderr, before anything runs."""
    assert main(["run", DEVICE, *extra, *JOB.split()]) == UsageError.exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert error in captured.err
    assert captured.err.count("\n") == 1
