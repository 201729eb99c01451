"""Whole runs against stored output, in order: the first ones read as a tutorial (`make bless` rewrites them).

NNN_name.cmd: what the run shows, as comments, and the words after `blktwin`. NNN_name.out: what it prints, its messages
and its exit status. NNN_name.json: the same run as JSON, for a few.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from golden_runs import CASES, FOLDER, words_of

from blktwin.cli import main

GoldenCheck = Callable[[Path, str], None]
WITH_JSON = ("001_one_writer", "005_fsync", "011_files_and_clones")


@pytest.mark.golden
@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_output(
    case: Path, golden: GoldenCheck, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER.parents[1])
    code = main(words_of(case))
    out, err = capsys.readouterr()
    golden(case.with_suffix(".out"), f"{out}-- messages\n{err}-- exit {code}\n")


@pytest.mark.golden
@pytest.mark.parametrize("name", WITH_JSON)
def test_json(
    name: str, golden: GoldenCheck, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER.parents[1])
    words = words_of(FOLDER / f"{name}.cmd")
    assert main([words[0], "--output-format=json", *words[1:]]) == 0
    golden(FOLDER / f"{name}.json", capsys.readouterr().out)


def test_the_cases_are_numbered_and_explained() -> None:
    assert [int(case.stem[:3]) for case in CASES] == list(range(1, len(CASES) + 1))
    assert all(case.read_text().startswith("# ") for case in CASES)
