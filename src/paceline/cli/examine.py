"""The checks of the doctor: each looks, and none changes anything."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paceline.units import format_bytes


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: whether it works, what was found, and the command that closes the gap."""

    name: str
    works: bool
    found: str
    mend: str = ""
    needed: bool = False


def examine() -> tuple[Check, ...]:
    """Return all checks."""
    return tuple(_checks())


def _checks() -> Iterator[Check]:
    from paceline.cluster.here import usable_cores, usable_memory

    version = platform.python_version()
    yield Check("Python", True, version, needed=True)
    yield Check("machine", True, f"{usable_cores()} cores, {format_bytes(usable_memory())} of memory")
    yield from _torch()
    yield _strategies()
    yield _writable()
    yield _package("scikit-learn", "the digits data set", "pip install 'paceline[digits]'")
    yield _package("torchvision", "its models, as a user's factory (optional; only where a build matches torch)", "")
    yield _data()
    yield _command("sbatch", "Slurm", "")
    yield _command("mpirun", "MPI", "")
    yield _namespaces()


def _torch() -> Iterator[Check]:
    try:
        import torch
        import torch.distributed as dist
    except Exception as error:
        yield Check("torch", False, f"cannot be imported ({error})", "pip install torch", needed=True)
        return
    yield Check("torch", True, f"{torch.__version__}, {torch.get_num_threads()} threads", needed=True)
    gloo = dist.is_available() and dist.is_gloo_available()
    yield Check(
        "Gloo (workers on CPUs)",
        gloo,
        "yes" if gloo else "no",
        "install a torch build with Gloo",
        needed=True,
    )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(sorted({torch.cuda.get_device_name(n) for n in range(count)}))
    yield Check(
        "GPU",
        count > 0,
        f"{count} x {names}" if count else "none; plans for GPUs use device models and profiles",
    )
    nccl = dist.is_available() and dist.is_nccl_available()
    yield Check("NCCL (workers on GPUs)", nccl, "yes" if nccl else "not in this torch build")


def _strategies() -> Check:
    from paceline.errors import PacelineError
    from paceline.strategy.registry import find_strategy, strategy_names

    try:
        names = [find_strategy(name).name for name in strategy_names()]
    except PacelineError as error:
        return Check("strategies", False, str(error), "pip install --force-reinstall paceline", needed=True)
    return Check(
        "strategies",
        bool(names),
        ", ".join(names) or "none",
        "pip install --force-reinstall paceline",
        needed=True,
    )


def _writable() -> Check:
    from paceline.store.home import runs_home

    home = runs_home()
    there = next(path for path in (home.absolute(), *home.absolute().parents) if path.exists())
    works = os.access(there, os.W_OK | os.X_OK) and there.is_dir()
    found = f"{home} {'can' if works else 'cannot'} be written"
    return Check("runs folder", works, found, "export PACELINE_RUNS=<a folder of yours>", needed=True)


def _package(name: str, what: str, mend: str) -> Check:
    try:
        return Check(name, True, f"{importlib.metadata.version(name)}, for {what}")
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, f"not installed; for {what}", mend)


def _data() -> Check:
    from paceline.data.sets import data_home

    home = data_home()
    found = sorted(path.name for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
    return Check("data sets", bool(found), ", ".join(found) or f"none in {home}", "paceline data fetch fashion-mnist")


def _command(name: str, what: str, mend: str) -> Check:
    path = shutil.which(name)
    return Check(f"{what} ({name})", path is not None, path or "not on this machine", mend)


def _namespaces() -> Check:
    root = os.geteuid() == 0
    ip = shutil.which("ip") or ("/usr/sbin/ip" if Path("/usr/sbin/ip").exists() else None)
    found = f"{'root' if root else 'not root'}, {ip or 'no ip command'}"
    return Check(
        "network namespaces (root and ip)",
        root and ip is not None,
        found,
        "" if ip else "apt-get install iproute2",
    )
