"""Real launches from the command line: what they listen on, and how they end when somebody ends them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "from paceline.cli.main import main; main()"]
# Nothing is measured first: the device model is scaled to a throughput.
JOB = """
[model]
name = "mlp"
input = "1x8x8"
[data]
name = "digits"
[cluster]
preset = "here"
devices_per_host = 2
[train]
epochs = 100000
[profile]
throughput = 1000.0
[plan]
strategy = "allreduce"
"""
_PATIENCE_S = 60  # until it trains, on a busy machine
_END_S = 15  # until it has ended


def tree(root):
    """Return the processes below one, with their start times, so that a number used again is not mistaken."""
    found, parents = {}, {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(path.name)] = (int(fields[1]), fields[19], fields[0])
    grown = True
    while grown:
        grown = False
        for process, (parent, began, _) in parents.items():
            if process not in found and (parent == root or parent in found):
                found[process] = began
                grown = True
    return found


def alive(processes):
    """Return those of the processes that still run."""
    found = []
    for process, began in processes.items():
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[19] == began and fields[0] != "Z":
            found.append(process)
    return found


def wait_until(true, what):
    began = time.monotonic()
    while not (found := true()):
        assert time.monotonic() - began < _PATIENCE_S, f"waited in vain for {what}"
        time.sleep(0.05)
    return found


class Launch:
    """A launch of two workers in a session of its own, in the middle of its training."""

    def __init__(self, desk):
        self.desk = desk
        (desk / "job.toml").write_text(JOB)
        self.process = subprocess.Popen(
            [*PROGRAM, "launch", "job.toml", "--quiet"],
            cwd=desk,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        records = wait_until(lambda: [*desk.glob("runs/*/worker-1.jsonl")], "a worker")[0]
        wait_until(lambda: records.stat().st_size > 0 or self.process.poll() is not None, "a step")
        assert self.process.poll() is None, self.process.stderr.read()
        self.folder = records.parent
        self.below = tree(self.process.pid)
        self.workers = [p for p in self.below if b"paceline.launcher.worker" in Path(f"/proc/{p}/cmdline").read_bytes()]
        assert len(self.workers) == 2

    def end(self):
        """Return exit code, standard output and error; nothing of the launch may be left."""
        out, err = self.process.communicate(timeout=_END_S)
        wait_until(lambda: not alive(self.below), "the workers to end")
        return self.process.returncode, out, err

    def check_folder(self):
        """The run is recorded as failed, in whole files."""
        assert json.loads((self.folder / "failure.json").read_text())["run_id"] == self.folder.name
        assert not (self.folder / "run.json").exists() and not (self.folder / "model.pt").exists()
        for file in self.folder.rglob("*"):
            assert not file.name.startswith(".") and file.suffix not in (".aside", ".tmp"), file
            if file.suffix == ".json":
                json.loads(file.read_text())


@pytest.fixture
def launch(desk):
    made = Launch(desk)
    yield made
    for process in alive({**made.below, **tree(made.process.pid)}):
        os.kill(process, signal.SIGKILL)
    if made.process.poll() is None:
        made.process.kill()
    made.process.communicate()


def listening(processes):
    """Return the addresses that processes listen on, as the kernel writes them."""
    sockets = set()
    for process in processes:
        for link in Path(f"/proc/{process}/fd").iterdir():
            try:
                match = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
            except OSError:
                continue
            sockets |= {match.group(1)} if match else set()
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.append(fields[1].partition(":")[0])
    return found


LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


def test_it_ends_by_ctrl_c(launch):
    os.killpg(launch.process.pid, signal.SIGINT)
    code, out, err = launch.end()
    assert (code, err) == (130, "paceline: interrupted\n")
    assert out.startswith("Predicted: ") and "Measured" not in out
    launch.check_folder()


@pytest.mark.slow
def test_it_ends_by_sigterm(launch):
    launch.process.terminate()
    code, out, err = launch.end()
    assert code == 130 and err.endswith("paceline: interrupted\n") and "Traceback" not in err
    assert "Measured" not in out
    launch.check_folder()


def test_its_workers_go_with_it_when_it_is_killed(launch):
    launch.process.kill()
    launch.process.wait(_END_S)
    wait_until(lambda: not alive(launch.below), "the workers to end")


def test_it_listens_on_loopback_and_fails_with_a_worker(launch):
    addresses = listening([launch.process.pid, *launch.below])
    assert addresses, "a launch has a store to meet at"
    assert set(addresses) <= LOOPBACK
    os.kill(launch.workers[1], signal.SIGKILL)
    code, _, err = launch.end()
    assert code == 2 and err.startswith("paceline: ") and err.count("\n") == 1
    assert f"worker 1 of run {launch.folder.name} was ended by signal 9" in err
    log = Path(err.split()[-1])
    assert log.name == "stderr.log" and (launch.desk / log).exists()
    launch.check_folder()


def test_a_reader_that_has_seen_enough(desk):
    command = " ".join(f"'{word}'" for word in [*PROGRAM, "devices"]) + " | head -1; echo ${PIPESTATUS[0]}"
    for shell_command in (command, command.replace("devices'", "clusters' --json")):
        done = subprocess.run(["bash", "-c", shell_command], capture_output=True, text=True, check=True, cwd=desk)
        assert done.stderr == "" and len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("strategy", [pytest.param("single", marks=pytest.mark.slow), "allreduce"])
def test_a_run(desk, answer, strategy):
    (desk / "job.toml").write_text(JOB)
    words = ["-s", "train.epochs=2", "-s", f"plan.strategy={strategy}"]
    found = answer("launch", "job.toml", *words)
    prediction = answer("predict", "job.toml", *words)
    assert found["kind"] == "run"
    same = {"plan", "devices", "hosts", "global_batch", "step_seconds", "step_seconds_range", "samples_per_second"}
    same |= {"epoch_seconds", "breakdown"}
    assert found.keys() >= same | {"workers", "steps", "losses", "accuracy", "run_id", "error"}
    assert same <= prediction.keys() and found["plan"] == prediction["plan"]
    workers = 1 if strategy == "single" else 2
    assert len(found["workers"]) == workers and found["steps"] == 2 * prediction["epoch_steps"]
    assert sum(found["breakdown"].values()) == pytest.approx(found["step_seconds"], rel=0.05)
    assert found["losses"][0][1] > found["losses"][-1][1] and 0.3 < found["accuracy"] <= 1
    assert (desk / "runs" / found["run_id"] / "run.json").is_file()
