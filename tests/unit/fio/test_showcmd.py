"""--showcmd without fio at hand: the shape of the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from blktwin.errors import ConfigError
from blktwin.fio.showcmd import render


def show(tmp_path: Path, *texts: str, args: tuple[str, ...] = (), sections: tuple[str, ...] = ()) -> str:
    """Write files and show them."""
    paths = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.fio"
        path.write_text(text)
        paths.append(str(path))
    return render(paths, args, sections, env={"X": "8k"})


def test_names_values_and_order(tmp_path: Path) -> None:
    """Canonical names, bare options bare, kb_base first, filename after the others, those of the engine last."""
    text = "[global]\nrw=read\nfilename=x\nkb_base=1000\n[a]\nioengine=io_uring\nhipri\nblocksize=${X}\nthread\n"
    want = "fio --kb_base=1000 --rw=read --filename=x --name=a --ioengine=io_uring --bs=8k --thread --hipri \n"
    assert show(tmp_path, text) == want


def test_description_is_quoted(tmp_path: Path) -> None:
    """Only the description is."""
    assert show(tmp_path, "[a]\ndescription=two words\n") == 'fio --name=a --description="two words" \n'


def test_later_global_repeats_the_earlier(tmp_path: Path) -> None:
    """As in fio, each [global] prints all global options so far."""
    text = "[global]\nbs=4k\n[a]\n[global]\nrw=write\n[b]\n"
    assert show(tmp_path, text) == "fio --bs=4k --name=a --bs=4k --rw=write --name=b \n"


def test_one_line_per_file(tmp_path: Path) -> None:
    """Options of the command line show up in the first file's [global] only."""
    text = "[global]\nrw=read\n[a]\n"
    assert show(tmp_path, text, text, args=("--bs=8k",)) == (
        "fio --bs=8k --rw=read --name=a \nfio --rw=read --name=a \n"
    )
    assert show(tmp_path, text, args=("--name=x", "--bs=8k")) == "fio --rw=read --name=a \n"


def test_nothing_to_show(tmp_path: Path) -> None:
    """No section, or none chosen: an empty line."""
    assert show(tmp_path, "") == "\n"
    assert show(tmp_path, "[a]\n[b]\n", sections=("b",)) == "fio --name=b \n"
    assert show(tmp_path, "[a]\n", sections=("b",)) == "\n"


def test_what_cannot_run_is_shown(tmp_path: Path) -> None:
    """Statuses do not matter here, mistakes do."""
    assert show(tmp_path, "[a]\nverify=md5\nioengine=net\nport=80\n") == (
        "fio --name=a --verify=md5 --ioengine=net --port=80 \n"
    )
    with pytest.raises(ConfigError, match=r"0\.fio:2: verify: 'md6' is not one of"):
        show(tmp_path, "[a]\nverify=md6\n")
