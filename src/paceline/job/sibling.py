"""Keeps the other devices of this host busy with the same training, while one of them is measured.

``python -m paceline.job.sibling THREADS`` reads a job as JSON from its standard input, says ``ready`` after a warm-up,
and trains until the input ends: it cannot outlive whoever started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

from paceline.errors import RunError
from paceline.job.job import Job, job_from_json

_WARM_UP = 2


@contextlib.contextmanager
def busy_siblings(job: Job, count: int, threads: int) -> Iterator[None]:
    """Run ``count`` siblings for as long as the context lasts."""
    with contextlib.ExitStack() as stack:
        siblings = []
        for _ in range(count):
            sibling = subprocess.Popen(
                [sys.executable, "-m", "paceline.job.sibling", str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            stack.callback(_end, sibling)
            siblings.append(sibling)
        for sibling in siblings:
            assert sibling.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # the line that it does not say tells the same
                sibling.stdin.write(json.dumps(job.to_json()) + "\n")
                sibling.stdin.flush()
        for sibling in siblings:
            assert sibling.stdout is not None
            if sibling.stdout.readline().strip() != "ready":
                raise RunError("a process that should keep the other cores busy ended at once; see `paceline doctor`")
        yield


def _end(sibling: subprocess.Popen[str]) -> None:
    sibling.kill()
    sibling.wait()
    for pipe in (sibling.stdin, sibling.stdout):
        with contextlib.suppress(BrokenPipeError):
            if pipe is not None:
                pipe.close()


def main() -> None:
    """Train until the standard input ends."""
    job = job_from_json(json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_input, daemon=True).start()
    _train(job, int(sys.argv[1]))


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def _train(job: Job, threads: int) -> None:
    import torch

    from paceline.job.resolve import load_case, load_case_data, optimizer_of
    from paceline.workload.stepper import Stepper

    torch.set_num_threads(threads)
    case, train = load_case(job), job.spec.train
    stepper = Stepper(case.source, load_case_data(case).train, optimizer_of(job), train.precision)
    for number, _ in enumerate(stepper.steps(train.batch_per_device)):
        if number == _WARM_UP:
            print("ready", flush=True)


if __name__ == "__main__":
    main()
