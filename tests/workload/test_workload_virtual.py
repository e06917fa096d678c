"""Virtual devices: the rebuilt model, the clock, the slots, and what torch's own machinery makes of them."""

import threading
import time
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from handmade import MIB, layer, profile, suite, timing, traced, workload
from paceline.workload.device import find_device
from paceline.workload.roofline import model_profile
from paceline.workload.virtual.clock import DeviceClock
from paceline.workload.virtual.device import Pace, VirtualDevice, blank_data
from paceline.workload.virtual.model import Scales, VirtualModel, module_names, wire, zero_loss
from paceline.workload.virtual.op import DEVICE
from paceline.workload.workload import Edge


def quick(of):
    """Layers of no time: what the model does besides taking it."""
    return profile(of, timing([0.0] * len(of.layers), [0.0] * len(of.layers), batch=of.batch))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "gpt-nano"])
def test_every_parameter_of_a_layer_is_there_and_gets_a_gradient(name):
    of = traced(name)
    model = VirtualModel(quick(of), Scales(bytes=4))
    sizes = [size for made in of.layers for size in made.parameter_sizes]
    assert [p.numel() for p in model.parameters()] == [max(round(size / 16), 1) for size in sizes]
    zero_loss(model(torch.zeros(3, 1)), torch.zeros(3)).backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "gpt-nano"])
def test_layers_run_forward_in_their_order_and_backward_in_the_reverse(name, monkeypatch):
    of = traced(name)
    count = len(of.layers)
    # Every layer's time is its number, so that the order in which time is taken tells who took it.
    times = timing([n + 1.0 for n in range(count)], [n + 1001.0 for n in range(count)], batch=of.batch)
    taken: list[float] = []
    monkeypatch.setattr(DEVICE, "work", taken.append)
    model = VirtualModel(profile(of, times), Scales(bytes=64))
    zero_loss(model(torch.zeros(of.batch, 1)), torch.zeros(1)).backward()
    assert taken[:count] == [n + 1.0 for n in range(count)]
    back = [round(seconds - 1001) for seconds in taken[count:]]
    assert back == sorted(back, reverse=True)
    first = next(n for n, made in enumerate(of.layers) if made.parameter_sizes)
    assert back == list(range(count - 1, first - 1, -1))


def test_edges_have_the_bytes_of_the_traced_ones():
    of = workload(batch=8)  # 512 B a sample
    wiring = wire(of, byte_scale=4)
    assert [made.widths for made in wiring] == [(32,), (32,), (1,)]
    assert [made.reads for made in wiring] == [(), (0,), (1,)]


def test_a_skip_connection_lives_until_its_reader():
    chain = workload(sizes=[[MIB]] * 4, batch=1)
    of = replace(chain, edges=(*chain.edges, Edge(0, 3, 4096)))
    wiring = wire(of, 1.0)
    assert wiring[0].widths == (128, 1024)
    assert set(wiring[3].reads) == {wiring[2].makes[0], wiring[0].makes[1]}


def test_layers_that_nothing_joins_still_run_in_their_order():
    of = replace(workload(), edges=())
    model = VirtualModel(quick(of), Scales())
    assert model(torch.zeros(2, 1)).shape == (2, 1)


def test_names_are_those_of_modules():
    of = workload()
    twice = replace(of, layers=(layer("a.b"), layer("a.b"), layer("a b")))
    assert module_names(twice) == ("a_b", "a_b_2", "a_b_3")


def test_an_interpolated_batch_takes_its_own_time():
    of = workload(batch=8)
    made = profile(of, timing([0.0] * 3, [0.0] * 3, batch=4), timing([0.010] * 3, [0.0] * 3, batch=8))
    model = VirtualModel(made, Scales(time=2.0))
    began = time.perf_counter()
    model(torch.zeros(6, 1))
    DEVICE.settle()
    assert 0.029 < time.perf_counter() - began < 0.2  # 3 layers x 5 ms x 2


def test_torch_can_export_it():
    model = VirtualModel(quick(traced("resnet18")), Scales(bytes=64))
    program = torch.export.export(model, (torch.zeros(4, 1),))
    layers = [node for node in program.graph.nodes if node.target is torch.ops.paceline.layer.default]
    assert len(layers) == len(traced("resnet18").layers)
    assert torch.equal(program.module()(torch.zeros(4, 1)), torch.zeros(4, 1))


@pytest.mark.filterwarnings("ignore")
def test_torch_can_split_it_into_stages():
    from torch.distributed.pipelining import SplitPoint, pipeline

    model = VirtualModel(quick(workload(sizes=[[MIB]] * 6, batch=4)), Scales(bytes=64))
    cut = pipeline(model, (torch.zeros(4, 1),), split_spec={"layers.layer3": SplitPoint.BEGINNING})
    assert cut.num_stages == 2
    parameters = [sum(p.numel() for p in cut.get_stage_module(n).parameters()) for n in range(2)]
    assert parameters == [3 * MIB // 4 // 64] * 2


def test_a_step_has_slots_for_optimizer_loop_and_data():
    of = workload(batch=8)
    made = profile(of, timing([0.0] * 3, [0.0] * 3, optimizer=0.02, data=0.01, overhead=0.005))
    device = VirtualDevice(made, Scales(time=2.0), Pace(), seed=0)
    try:
        source = device.source(suite("mlp"))
        model = source.build()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        data = blank_data(16)
        for passes in (1, 2):
            began = time.perf_counter()
            for _ in range(passes):
                inputs, targets = data.train.batch(torch.arange(8))
                source.loss(model(inputs), targets).backward()
            optimizer.step()
            DEVICE.settle()
            wanted = 2 * (0.02 + 0.005 + 0.01 * passes)
            assert wanted - 0.002 < time.perf_counter() - began < wanted + 0.1
        other = nn.Linear(2, 2)  # somebody else's optimizer takes no slot
        other(torch.zeros(1, 2)).sum().backward()
        began = time.perf_counter()
        torch.optim.SGD(other.parameters(), 0.1).step()
        assert time.perf_counter() - began < 0.02
    finally:
        device.close()


def test_stragglers_and_jitter_change_the_pace():
    made = quick(workload())
    device = VirtualDevice(made, Scales(), Pace(slow=1.5, jitter=0.1), seed=3)
    try:
        paces = []
        for _ in range(400):
            device._set_pace()
            paces.append(DEVICE.pace)
        assert 1.46 < sum(paces) / len(paces) < 1.54
        spread = (sum((p / 1.5 - 1) ** 2 for p in paces) / len(paces)) ** 0.5
        assert 0.08 < spread < 0.12
    finally:
        device.close()
        DEVICE.pace = 1.0


def test_a_device_that_pauses_stands_still():
    device = VirtualDevice(quick(workload()), Scales(), Pace(pause=0.05, every=0.001), seed=0)
    try:
        model = device.source(suite("mlp")).build()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        zero_loss(model(torch.zeros(8, 1)), torch.zeros(1)).backward()
        time.sleep(0.002)
        began = time.perf_counter()
        optimizer.step()
        DEVICE.settle()
        assert time.perf_counter() - began > 0.049
    finally:
        device.close()


class TestClock:
    def test_work_behind_work_starts_when_the_first_was_due(self):
        clock = DeviceClock()
        clock.work(0.0)
        began = time.perf_counter()
        for _ in range(50):
            clock.work(0.002)
            _busy(0.0005)  # this machine's own doing, which the next sleep makes up for
        clock.settle()
        assert 0.0995 < time.perf_counter() - began < 0.15

    def test_a_wait_for_others_moves_the_deadline(self):
        clock = DeviceClock()
        clock.work(0.005)
        time.sleep(0.05)  # as a receive does
        began = time.perf_counter()
        clock.work(0.02)
        clock.settle()
        assert time.perf_counter() - began > 0.0195
        assert clock.late < 0.005

    def test_what_it_cannot_make_up_is_late(self):
        clock = DeviceClock()
        clock.work(0.001)
        _busy(0.05)
        clock.work(0.001)
        assert clock.late > 0.03
        time.sleep(0.02)
        clock.work(0.001)
        assert clock.late > 0.03  # others were kept waiting: it stays counted

    def test_other_threads_may_drive_it(self):
        clock = DeviceClock()
        began = time.perf_counter()
        for _ in range(3):
            thread = threading.Thread(target=clock.work, args=(0.01,))
            thread.start()
            thread.join()
        clock.settle()
        assert time.perf_counter() - began > 0.0295

    @given(st.lists(st.floats(0, 0.003), min_size=1, max_size=8))
    def test_no_work_is_lost(self, parts):
        clock = DeviceClock()
        clock.settle()
        began = time.perf_counter()
        for seconds in parts:
            clock.work(seconds)
        clock.settle()
        assert (
            time.perf_counter() - began >= sum(parts) - 1e-3
        )  # a moment before it, nobody waited: that is this machine's doing


def _busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_the_profile_of_a_device_model_fits_its_virtual_device():
    of = traced("resnet18", batch=8)
    made = model_profile(of, find_device("virtual:v100-sxm2"), "sgd", (8,))
    model = VirtualModel(made, Scales(bytes=64))
    model(torch.zeros(8, 1))  # allocations of the first time
    DEVICE.settle()
    began = time.perf_counter()
    zero_loss(model(torch.zeros(8, 1)), torch.zeros(1)).backward()
    DEVICE.settle()
    wanted = made.at(8).forward + made.at(8).backward
    assert 0.98 * wanted < time.perf_counter() - began < 3 * wanted + 0.1
