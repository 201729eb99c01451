"""The parameters of a file: what is refused, and how it is said."""

from __future__ import annotations

import pytest
from file_world import FileWorld

from blktwin.errors import ConfigError
from blktwin.sim.files.filesystem import FILE_KINDS
from blktwin.sim.files.params import FileParams, check_params, make_params


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "ext5"}, "f.kind: no file system 'ext5'; did you mean ext4?"),
        ({"kind": "zzz"}, "f.kind: no file system 'zzz'; one of"),
        ({"sise_bytes": 1}, "f.sise_bytes: no parameter of a file; did you mean size_bytes?"),
        ({"size_bytes": "big"}, "f.size_bytes: big is not a whole number"),
        ({"size_bytes": True}, "f.size_bytes: True is not a whole number"),
        ({"size_bytes": 1}, "f.size_bytes: 1 is not from 4096 to"),
        ({"is_sparse": 1}, "f.is_sparse: 1 is neither true nor false"),
        ({"p_hole": 1.5}, "f.p_hole: 1.5 is not from 0 to 1"),
        ({"p_hole": "x"}, "f.p_hole: x is not a number from 0 to 1"),
        ({"p_hole": 0.7, "p_unwritten": 0.7}, "f.p_hole: p_unwritten, p_shared and p_hole are more than 1 together"),
        ({"is_sparse": True, "p_unwritten": 0.5}, "f.is_sparse: a sparse file has neither"),
        ({"p_shared": 0.5}, "f.p_shared: ext4 has no shared extents"),
        ({"dio_align_bytes": 1000}, "f.dio_align_bytes: 1000 is not a power of two from 512"),
        ({"extent_bytes": 5000}, "f.extent_bytes: 5000 is not a multiple of 4096"),
        ({"dirty_limit_bytes": 8192}, "f.dirty_limit_bytes: the flusher must begin"),
    ],
)
def test_refused(values: dict[str, object], message: str) -> None:
    """Each mistake is one line that names the key."""
    with pytest.raises(ConfigError) as caught:
        make_params(values, "s.toml", 3, "f")
    assert str(caught.value).startswith("s.toml:3: " + message)


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_defaults_are_right(kind: str) -> None:
    """Every file system takes the defaults, and what is given is kept."""
    params = make_params({"kind": kind, "size_bytes": 1 << 30, "p_hole": 1})
    assert (params.kind, params.size_bytes, params.p_hole) == (kind, 1 << 30, 1.0)
    check_params(params)


def test_region() -> None:
    """A file needs room for itself, what it may grow, what moves, and its journal."""
    params = FileParams("ext4", 4097)
    params.journal_bytes = 0
    assert params.region_bytes() == 8192
    params.grow_bytes = 1
    assert params.region_bytes() == 8192
    params.grow_bytes = 4096
    assert params.region_bytes() == 12288
    params.kind = "btrfs"
    assert params.region_bytes() == 12288 * 3
    params.is_nodatacow = True
    assert params.region_bytes() == 12288
    params.journal_bytes = 4096
    assert params.region_bytes() == 12288 + 64 * 8192
    assert FileParams("tmpfs").region_bytes() == 0


def test_a_file_must_fit() -> None:
    """One that does not fit on its device is refused."""
    with pytest.raises(ConfigError, match="disk has 267386880 bytes for a file that needs"):
        FileWorld(FileParams("ext4", 1 << 30))
    world = FileWorld()
    with pytest.raises(ConfigError, match="begins at a multiple of 4096"):
        world.add_file(FileParams("ext4", 4096), 512)
