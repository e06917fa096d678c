"""Measuring a profile: with steps whose times are known, and for real."""

import contextlib
import statistics
import time

import pytest
import torch
from torch import nn

from handmade import suite, user
from paceline.data.samples import TensorSamples
from paceline.data.synthetic import synthetic
from paceline.errors import DataError, ModelError, RunError
from paceline.workload import measure as measuring
from paceline.workload.measure import measure
from paceline.workload.optime import time_layers
from paceline.workload.optimizer import OptimizerSetting
from paceline.workload.stepper import Stepper, StepTime
from paceline.workload.trace import trace

SGD = OptimizerSetting("sgd", 0.1, 0.9)


def samples(of, count: int = 64):
    return synthetic(of.inputs, of.targets, count, seed=0)


def net(*more: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), *more, nn.Linear(8, 4))


def quick(of, batch: int = 4, seconds: float = 0.2, **more):
    return measure(of, more.pop("data", samples(of)), trace(of, batch), SGD, seconds=seconds, **more)


class Scripted(Stepper):
    """Steps that take what ``script`` says: the first of a size 3 s, later ones 1 s, or ``crowded``."""

    crowded: float | None = None
    threads: list[int] = []

    def steps(self, batch):
        number = 0
        while True:
            self.threads.append(torch.get_num_threads())
            whole = (self.crowded or 1.0) if number else 3.0
            yield StepTime(0.3, 0.5, 0.1, 0.02, whole)
            number += 1


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(measuring, "Stepper", Scripted)
    monkeypatch.setattr(Scripted, "threads", [])
    monkeypatch.setattr(Scripted, "crowded", None)
    return Scripted


def test_the_parts_of_a_step_are_those_of_unwatched_steps(scripted):
    profile = quick(user(net), seconds=0)
    (timing,) = profile.timings
    assert sum(timing.forward_seconds) == pytest.approx(0.3)
    assert sum(timing.backward_seconds) == pytest.approx(0.5)
    assert (timing.optimizer_seconds, timing.data_seconds) == pytest.approx((0.1, 0.02))
    assert timing.overhead_seconds == pytest.approx(0.08)
    assert timing.step_seconds == pytest.approx(1.0)
    assert (timing.jitter, timing.spread) == (0, 0.02)
    assert profile.start_seconds == pytest.approx(2.0)
    assert (profile.source, profile.device, profile.optimizer, profile.crowding) == ("measured", "cpu", "sgd", 1.0)
    assert len(timing.forward_seconds) == len(profile.workload.layers)


@pytest.mark.parametrize(("crowded", "crowding"), [(1.5, 1.5), (0.8, 1.0)])
def test_crowding_is_what_a_step_takes_beside_others(scripted, crowded, crowding):
    entered = []

    @contextlib.contextmanager
    def crowd():
        entered.append(True)
        scripted.crowded = crowded
        yield
        scripted.crowded = None
        entered.append(False)

    profile = quick(user(net), seconds=0, crowd=crowd, batches=(2,))
    assert profile.crowding == pytest.approx(crowding)
    assert entered == [True, False]
    assert [timing.step_seconds for timing in profile.timings] == pytest.approx([1.0, 1.0])


def test_progress_only_moves_on(scripted):
    heard = []
    quick(user(net), seconds=0, batches=(1, 2, 8), progress=lambda what, share: heard.append((what, share)))
    assert [what for what, _ in heard] == ["batch 4", "batch 1", "batch 2", "batch 8", "done"]
    shares = [share for _, share in heard]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1


def test_threads_are_those_asked_for_and_given_back(scripted):
    before = torch.get_num_threads()
    profile = quick(user(net), seconds=0, threads=before + 1)
    assert set(scripted.threads) == {before + 1}
    assert torch.get_num_threads() == before
    assert profile.threads == before + 1
    assert quick(user(net), seconds=0).threads == before


def test_threads_are_given_back_after_a_failure_too():
    before = torch.get_num_threads()
    with pytest.raises(DataError):
        quick(user(net), data=Missing(), threads=before + 1)
    assert torch.get_num_threads() == before


class Missing:
    """A set whose files have gone."""

    def __len__(self):
        return 8

    def batch(self, indices):
        raise DataError("samples.bin: there is no such file")


class Picky(nn.Module):
    """Refuses three samples, and goes through another layer for one."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, inputs):
        if len(inputs) == 3:
            raise IndexError("three is a crowd")
        hidden = self.first(inputs)
        if len(inputs) == 1:
            hidden = self.second(hidden)
        return hidden


@pytest.mark.parametrize(
    ("factory", "batches", "timed"),
    [
        (lambda: net(nn.BatchNorm1d(8)), (1, 2, 4, 8), (2, 4, 8)),
        (Picky, (1, 2, 3, 8), (2, 4, 8)),
        (net, (1, 16), (1, 4, 16)),
        (net, (4,), (4,)),
    ],
)
def test_a_size_that_the_model_refuses_has_no_timing(factory, batches, timed):
    assert quick(user(factory), batches=batches).batches() == timed


def test_a_model_that_refuses_its_own_batch_is_a_sentence():
    def moody():
        class Moody(nn.Module):
            def forward(self, inputs):
                if type(inputs) is torch.Tensor and inputs.device.type == "cpu" and not is_fake(inputs):
                    raise IndexError("not today")
                return inputs

        return nn.Sequential(nn.Linear(4, 4), Moody())

    with pytest.raises(ModelError, match=r"^model user fails on a batch of 4 samples: not today$"):
        quick(user(moody))


def is_fake(tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def test_data_that_are_missing_stay_the_datas_fault():
    with pytest.raises(DataError, match="no such file"):
        quick(user(net), data=Missing())


def test_a_rate_that_would_diverge_measures_all_the_same():
    of = user(net)
    wild = OptimizerSetting("sgd", 1e30, 0.9)
    profile = measure(of, samples(of), trace(of, 8), wild, seconds=0.2)
    assert profile.at(8).step_seconds > 0


def test_a_loss_that_is_no_number_at_once_is_told():
    of = user(net)
    broken = TensorSamples(torch.full((8, 4), float("nan")), torch.zeros(8, dtype=torch.int64))
    with pytest.raises(RunError, match=r"the loss of user is nan at batch 1 of the profile"):
        quick(of, data=broken)


@pytest.fixture(scope="module")
def small():
    of = suite("cnn", length="1x12x12")
    return of, measure(of, samples(of), trace(of, 16), SGD, seconds=1.5, batches=(2, 32), threads=1)


def test_a_real_profile_adds_up(small):
    _, profile = small
    assert profile.batches() == (2, 16, 32)
    for timing in profile.timings:
        assert min(timing.forward_seconds) >= 0 and min(timing.backward_seconds) >= 0
        assert timing.forward > 0 and timing.backward > 0 and timing.optimizer_seconds > 0
        parts = timing.forward + timing.backward + timing.optimizer_seconds
        assert timing.step_seconds == pytest.approx(parts + timing.data_seconds + timing.overhead_seconds)
        assert timing.spread >= 0.02 and timing.jitter >= 0
    assert profile.at(2).step_seconds < profile.at(32).step_seconds


def test_a_real_profile_is_near_the_time_of_the_steps(small):
    of, profile = small
    torch.manual_seed(0)
    model = of.build().train()
    optimizer = torch.optim.SGD(model.parameters(), 1e-6, 0.9)
    inputs, targets = of.example(16, seed=0)
    before, taken = torch.get_num_threads(), []
    torch.set_num_threads(1)
    for _ in range(30):
        began = time.perf_counter()
        optimizer.zero_grad()
        of.loss(model(inputs), targets).backward()
        optimizer.step()
        taken.append(time.perf_counter() - began)
    torch.set_num_threads(before)
    assert 1 / 3 < profile.at(16).step_seconds / statistics.median(taken) < 3


def test_time_goes_to_the_layer_that_takes_it():
    heavy = nn.Sequential(nn.Linear(8, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 4))
    inputs, targets = torch.randn(64, 8), torch.zeros(64, dtype=torch.int64)

    def forward():
        return nn.functional.cross_entropy(heavy(inputs), targets)

    ahead, back = time_layers(heavy, forward, 6, torch.device("cpu"), repeats=5)
    for seconds in (ahead, back):
        assert len(seconds) == 6
        assert max(range(6), key=seconds.__getitem__) == 2
        assert all(value >= 0 for value in seconds)
    assert all(parameter.grad is None for parameter in heavy.parameters())


def test_a_path_that_depends_on_the_data_cannot_be_timed():
    model, inputs = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    with pytest.raises(ValueError, match="it ran 2 layers, but 5 when it was traced"):
        time_layers(model, lambda: model(inputs).sum(), 5, torch.device("cpu"))
