"""Puts a stack file and the command line together: what the command line says goes first."""

from __future__ import annotations

from blktwin.block.rules import DEFAULT_RULES
from blktwin.errors import ConfigError, UsageError
from blktwin.lab.cgroups import CgroupFile
from blktwin.lab.stack import DEFAULT_SEED, Stack, find_rules
from blktwin.lab.stack_file import load_stack
from blktwin.lab.stack_said import StackFile
from blktwin.lab.toml_file import TomlFile
from blktwin.sim.devices.spec import DeviceSpec
from blktwin.sim.hosts import DEFAULT_HOST, Host, get_host


def read_stack(path: str, variant: str) -> StackFile:
    """Return what --stack and --variant name; without --stack a file that says nothing."""
    if path:
        return load_stack(path).read(variant)
    if variant:
        raise UsageError("means nothing without --stack", key="--variant")
    return StackFile(TomlFile(""))


def find_host(name: str) -> Host:
    """Return the host of --host."""
    try:
        return get_host(name)
    except ConfigError as error:
        raise UsageError(error.message, key="--host") from None


def assemble(
    said: StackFile,
    *,
    seed: int = DEFAULT_SEED,
    devices: list[DeviceSpec] | None = None,
    scheduler: str = "",
    tunables: list[tuple[str, str]] | None = None,
    rules: str = "",
    host: str = "",
    cpus: int = 0,
    cgroup: str = "/",
    cgroups: CgroupFile | None = None,
) -> Stack:
    """Return the stack to run on; everything but `said` is the command line's, "", 0 and None for what it leaves open.

    A device of the command line replaces the file's of that path, --host all of [host].
    """
    given = devices or []
    paths = {spec.path for spec in given}
    chosen = find_host(host) if host else said.host or get_host(DEFAULT_HOST)
    return Stack(
        devices=[*(spec for spec in said.devices if spec.path not in paths), *given],
        scheduler=scheduler or said.scheduler,
        tunables=[*said.tunables, *(tunables or [])],
        rules=find_rules(rules or said.rules or DEFAULT_RULES),
        host=chosen,
        cpus=cpus,
        cgroup=cgroup,
        cgroups=cgroups or said.cgroups,
        cgroup_per_job=said.cgroup_per_job,
        seed=seed,
        file=said.toml.file,
        variant=said.variant,
        files=said.files,
        loops=said.loops,
        mounts=said.mounts,
        hogs=said.hogs,
    )
