"""A worker: ``python -m paceline.launcher.worker RUN_FOLDER`` under any launcher that sets torchrun's variables."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

# Before torch is imported: it reads these then.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's own count is set from the plan
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
# Gloo takes its interface from here, and must not listen beyond this machine.
if os.environ.get("MASTER_ADDR", "") in ("127.0.0.1", "localhost"):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

from paceline.artefact import write_text
from paceline.cluster.emulation import Emulation, Straggler
from paceline.errors import PacelineError
from paceline.job.resolve import load_case, load_case_data
from paceline.launcher.folder import RunFolder
from paceline.launcher.orphan import die_with_parent
from paceline.schema import check
from paceline.strategy.contract import scaled_knobs
from paceline.train.checkpoint.keeper import Wish
from paceline.train.checkpoint.save import Place
from paceline.train.loop import Training, train
from paceline.train.memory import PeakMemory
from paceline.train.record import EndRecord, Recorder
from paceline.train.spec import TrainSpec
from paceline.workload.profile import Profile
from paceline.workload.virtual.device import Pace, VirtualDevice, blank_data
from paceline.workload.virtual.model import Scales

_PATIENCE = timedelta(minutes=10)  # how long a collective may wait for a worker


def main(arguments: list[str]) -> int:
    """Run one worker and return its exit code: 2 after a failure that has a sentence of its own."""
    die_with_parent()
    folder = RunFolder(Path(arguments[0]))
    rank, workers = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    warnings.filterwarnings("ignore", message=".*barrier.*")
    warnings.filterwarnings("ignore", message=".*broadcast_buffers.*")  # torch has nothing yet to put in its place
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the launcher too, which ends the workers in order
    try:
        run(folder, rank, workers)
    except PacelineError as error:
        write_text(f"{error}\n", folder.error(rank))
        return 2
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def run(folder: RunFolder, rank: int, workers: int) -> None:
    """Train this worker's part of the run; the process group stays for :func:`end`."""
    settings, plan = folder.settings(), folder.plan()
    torch.set_num_threads(int(settings["threads"]))
    device = torch.device("cpu")
    if settings["device"] == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    case = load_case(folder.job())
    spec = case.job.spec.train
    virtual = settings["device"] == "virtual"
    data = blank_data(int(settings["samples"])) if virtual else load_case_data(case)
    if workers > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
    training = Training(
        source=case.source,
        data=data,
        spec=spec,
        plan=plan,
        rank=rank,
        workers=workers,
        device=device,
        unused_parameters=bool(settings["unused_parameters"]),
        wish=wish_of(folder, settings, spec, rank, workers),
    )
    if virtual:
        training = on_virtual_device(training, folder.profile(), settings["emulation"])
    with Recorder(folder.records(rank)) as recorder:
        memory = PeakMemory(device)
        runner = train(training, recorder)
        recorder.write(EndRecord(memory.taken()))
    if rank == 0:
        _save_weights(runner.model, folder.path / "model.pt")


def wish_of(folder: RunFolder, settings: Mapping[str, Any], spec: TrainSpec, rank: int, workers: int) -> Wish:
    """Return what the job and the launcher say of checkpoints; each start of the workers is an attempt of its own."""
    attempt = f"{int(settings.get('attempt', 0))}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    resume = settings.get("resume")
    return Wish(
        Place(folder.checkpoints, rank, workers, attempt, spec.keep),
        spec.checkpoint_every,
        folder.checkpoints / str(resume) if resume else None,
    )


def on_virtual_device(training: Training, profile: Profile, emulation: Mapping[str, Any]) -> Training:
    """Return the training on this process's virtual device: seconds and bytes are this machine's from here on."""
    made = check(Emulation, emulation, "launch.json", "emulation")
    time_scale, byte_scale = made.scales
    own = next((s for s in made.stragglers if s.device == training.rank), Straggler(training.rank))
    pace = Pace(own.slow, made.jitter, own.pause, own.every)
    device = VirtualDevice(profile, Scales(time_scale, byte_scale), pace, seed=training.spec.seed + training.rank)
    return replace(
        training,
        source=device.source(training.source),
        plan=replace(training.plan, knobs=scaled_knobs(training.plan.knobs, byte_scale)),
        spec=training.spec.model_copy(update={"precision": "fp32"}),  # the profile's times already know it
        late=device.late,
    )


def _save_weights(model: torch.nn.Module, path: Path) -> None:
    aside = path.with_suffix(".aside")
    torch.save(model.state_dict(), aside)  # tensors only: read it back with weights_only=True
    aside.replace(path)


def end(code: int) -> NoReturn:
    """End the process at once, its process group as it is.

    Everything is written by now. To take the group down would wait for Gloo's threads with Python's lock in hand, which
    a thread that still lets go of a tensor needs: the worker would hang, or be aborted by the interpreter's own end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(sys.argv[1:]))
