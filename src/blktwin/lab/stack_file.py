"""The file of --stack: the whole stack under a job as data, and its variants.

    job = "reads.fio"                      # for a command line that names no job; relative to this file
    [host]
    name = "server"
    [device."/dev/nvme0n1"]
    profile = "nvme"
    [file."/data/disk.img"]
    size = "4g"
    fs = "ext4"
    [loop.loop0]
    backing-file = "/data/disk.img"
    direct-io = true
    [[variant]]
    name = "nowait"
    set = {"loop.loop0.policy" = "nowait_first"}

Everything that the file alone can tell is checked here, of every variant; world.py builds it. All keys: docs/loop.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from blktwin.lab.stack_loops import check_references
from blktwin.lab.stack_said import StackFile
from blktwin.lab.stack_tables import SECTIONS, read_section
from blktwin.lab.stack_variants import Variant, find_variant, lay_over, read_variants
from blktwin.lab.toml_file import Table, TomlFile, find_lines, parse_tables, read_text
from blktwin.lab.toml_values import Place
from blktwin.sim.hints import near


@dataclass(slots=True)
class StackSource:
    """A stack file with its variants; all of them have been checked."""

    toml: TomlFile
    tables: Table
    variants: list[Variant]

    def read(self, name: str = "") -> StackFile:
        """Return one variant; "": the file without any."""
        toml, tables = self.toml, self.tables
        if name:
            toml, tables = lay_over(toml, tables, find_variant(self.variants, name, toml))
        return read_tables(toml, tables, name)


def load_stack(path: str) -> StackSource:
    """Read a file; ConfigError names file, line and key of any mistake."""
    return parse_stack(read_text(path, "a stack"), path)


def parse_stack(text: str, file: str) -> StackSource:
    """Read TOML text; ConfigError names file, line and key of any mistake, in whichever variant."""
    toml = TomlFile(file, find_lines(text))
    tables = parse_tables(text, file)
    source = StackSource(toml, tables, read_variants(toml, tables))
    names = [variant.name for variant in source.variants]
    for name in ["", *names]:
        for one in source.read(name).expect:
            if one not in names:
                hint = near(one, names) or f"; there are {', '.join(names)}"
                raise toml.error(("expect", one), f"no variant of that name{hint}")
    return source


def read_tables(toml: TomlFile, tables: Table, variant: str) -> StackFile:
    """Read all sections."""
    result = StackFile(toml, variant)
    for name in tables:
        if name not in SECTIONS:
            hint = near(name, SECTIONS) or f"; there are {', '.join(SECTIONS)}"
            raise toml.error((name,), f"no such key{hint}")
    # In the order of SECTIONS: what later ones refer to has been read.
    for name in SECTIONS:
        if name in tables:
            read_section(result, Place(toml, (name,)), tables[name], tables)
    check_references(result)
    return result
