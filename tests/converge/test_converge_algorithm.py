"""The simulated algorithms against FACTS' pseudo-code, worker by worker, in float64."""

import pytest
import torch
from simulated import Reference, rows, run, setting, vector, write
from torch import nn

from paceline.converge.staleness import delays_of


def delayed(made, tau, delay, xi, start=0):
    """Local SGD and DaSGD as their pseudo-code says; a delay of 0 merges at the round's end."""
    plain, average = Reference(made), None
    for step, lr, parts in plain.steps():
        for worker, part in enumerate(parts):
            plain.local(worker, part, lr)
        place = (step - start) % tau
        if step < start:
            average = plain.mean()
            for model in plain.models:
                write(model, average)
            average = None
            continue
        if delay > 0 and place == delay - 1 and average is not None:
            for model in plain.models:
                write(model, xi * vector(model) + (1 - xi) * average)
        if place == tau - 1:
            average = plain.mean()
            if delay == 0:
                for model in plain.models:
                    write(model, xi * vector(model) + (1 - xi) * average)
    return plain


def outer(made, tau, name, rate, keep):
    """SlowMo and DiLoCo: anchor, average, slow move."""
    plain = Reference(made)
    anchor = vector(plain.models[0])
    memory = torch.zeros_like(anchor)
    for step, lr, parts in plain.steps():
        for worker, part in enumerate(parts):
            plain.local(worker, part, lr)
        if step % tau < tau - 1:
            continue
        if name == "slowmo":
            memory = keep * memory + (anchor - plain.mean()) / lr
            anchor = anchor - rate * lr * memory
        else:
            gradient = anchor - plain.mean()
            memory = keep * memory + gradient
            anchor = anchor - rate * (gradient + keep * memory)
        for model in plain.models:
            write(model, anchor)
    return plain


def agree(simulation, plain):
    torch.testing.assert_close(rows(simulation), plain.rows(), rtol=1e-6, atol=1e-9)
    for n, model in enumerate(plain.models):
        for (name, own), wanted in zip(simulation.people.module(n).named_buffers(), model.buffers()):
            torch.testing.assert_close(own, wanted, rtol=1e-6, atol=1e-9, msg=f"worker {n}: {name}")


@pytest.mark.parametrize("xi", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("delay", [0, 1, 2, 3])
def test_dasgd_is_its_pseudo_code(delay, xi):
    made = setting("dasgd", tau=3, delay=delay, xi=xi, epochs=2, samples=70)
    agree(run(made), delayed(made, 3, delay, xi))


RECIPES = {
    "sgd": {},
    "nesterov": {"nesterov": True},
    "adam": {"optimizer": "adam", "momentum": 0.0},
    "adamw": {"optimizer": "adamw", "momentum": 0.0, "decay_norm_and_bias": False},
    "lars": {"optimizer": "lars", "trust": 0.1},
    "lamb": {"optimizer": "lamb", "momentum": 0.0},
    "clipped": {"clip_norm": 0.3},
    "smoothed": {"label_smoothing": 0.1},
    "uncorrected": {"momentum_correction": False, "lr_min": 0.01},
    "plain": {"momentum": 0.0, "weight_decay": 0.0},
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_localsgd_is_its_pseudo_code_with_every_optimizer(recipe):
    made = setting("localsgd", tau=4, **recipe)
    agree(run(made), delayed(made, 4, 0, 0.0))


def test_localsgd_is_dasgd_without_delay_that_keeps_nothing():
    one, other = run(setting("localsgd", tau=3)), run(setting("dasgd", tau=3, delay=0, xi=0.0))
    assert torch.equal(one.people.weights, other.people.weights)


def test_post_local_averages_every_step_until_its_epoch():
    made = setting("localsgd", tau=4, start=1)
    agree(run(made), delayed(made, 4, 0, 0.0, start=run(made, 0).epoch_steps))


@pytest.mark.parametrize("name,rate,keep", [("slowmo", 1.0, 0.5), ("diloco", 0.7, 0.9)])
def test_outer_optimizers(name, rate, keep):
    made = setting("localsgd", tau=3, outer=name, lr=0.02, lr_min=0.005)
    agree(run(made), outer(made, 3, name, rate, keep))
    made = setting("localsgd", tau=3, outer=name, lr=0.02, lr_min=0.005, outer_lr=0.9, outer_momentum=0.3)
    agree(run(made), outer(made, 3, name, 0.9, 0.3))


def test_a_share_of_one_never_synchronises():
    made = setting("dasgd", tau=2, delay=1, xi=1.0)
    plain = Reference(made)
    for _, lr, parts in plain.steps():
        for worker, part in enumerate(parts):
            plain.local(worker, part, lr)
    agree(run(made), plain)


def test_a_share_of_zero_takes_the_stale_average_to_the_last_bit():
    after = run(setting("dasgd", tau=2, delay=1, xi=0.0), steps=3)  # snapshot after 2, merged after 3
    assert (after.people.weights == after.people.weights[0]).all()


def test_workers_differ_between_averagings_and_meet_in_them():
    made = setting("localsgd", tau=4)
    apart, met = run(made, steps=3), run(made, steps=4)
    found = rows(apart)
    gaps = [float((found[a] - found[b]).abs().max()) for a in range(4) for b in range(a)]
    assert min(gaps) > 1e-4
    assert (met.people.weights == met.people.weights[0]).all()
    statistics = met.people.buffers["1.running_mean"]
    assert all(not torch.equal(statistics[a], statistics[b]) for a in range(4) for b in range(a))
    momentum = met.algorithm.state()["momentum"]
    assert all(not torch.equal(momentum[a], momentum[b]) for a in range(4) for b in range(a))
    assert apart.people.apart() > 1e-4 and met.people.apart() < 1e-12


def test_all_workers_start_from_the_seed_and_none_is_averaged_before_its_round():
    start = run(setting("dasgd", tau=3, delay=2, xi=0.25), steps=0)
    assert (start.people.weights == start.people.weights[0]).all()


@pytest.mark.parametrize("strategy", ["single", "allreduce", "localsgd", "dasgd"])
def test_one_worker_is_plain_sgd(strategy):
    knobs = {"dasgd": {"tau": 2, "delay": 0, "xi": 0.5}}.get(strategy, {})
    made = setting(strategy, workers=1, samples=50, **knobs)
    plain = Reference(made)
    for _, lr, parts in plain.steps():
        plain.local(0, parts[0], lr)
    agree(run(made), plain)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_synchronous_weighs_every_sample_the_same(accumulate):
    made = setting(
        "allreduce", samples=77, accumulate=accumulate, factory=lambda: nn.Sequential(nn.Flatten(), nn.Linear(72, 3))
    )
    plain = Reference(made)
    model, optimizer = plain.models[0], plain.optimizers[0]
    for _, lr, parts in plain.steps():
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        inputs, targets = plain.samples.batch(torch.cat([part.indices for part in parts]))
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    found = run(made)
    assert len(found.people.weights) == 1  # one set of weights, however many workers
    torch.testing.assert_close(rows(found)[3], vector(model), rtol=1e-6, atol=1e-9)


def test_an_asynchronous_server_adds_up_pushes_in_turn():
    made = setting("ps", **{"async": True}, lr=0.02)
    plain = Reference(made)
    server = vector(plain.models[0])
    for _, lr, parts in plain.steps():
        for worker, part in enumerate(parts):
            before = vector(plain.models[worker])  # what it pulled after its last push
            plain.local(worker, part, lr)
            server = server + vector(plain.models[worker]) - before
            write(plain.models[worker], server)
    found = run(made)
    torch.testing.assert_close(rows(found), plain.rows(), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(vector(found.people.module_at(found.algorithm.answer())), server, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("sync", [False, True])
def test_a_pipeline_reads_weights_of_another_age_on_every_stage(sync):
    made = setting("pipedream", workers=3, partition="0-1, 1-3, 3-5", vertical_sync=sync, lr=0.02, formulation=None)
    plain = Reference(made)
    model, optimizer = plain.models[0], plain.optimizers[0]
    ages = [2, 2, 2, 2, 2, 2] if sync else [2, 2, 1, 1, 0, 0]  # convolution; batch norm; linear layer, each with bias
    history = [[p.detach().clone() for p in model.parameters()]]
    for _, lr, parts in plain.steps():
        for part in parts:
            stale = [history[max(len(history) - 1 - age, 0)][n] for n, age in enumerate(ages)]
            names = [name for name, _ in model.named_parameters()]
            reading = {n: value.clone().requires_grad_() for n, value in zip(names, stale)}
            inputs, targets = plain.samples.batch(part.indices)
            outputs = torch.func.functional_call(model, reading, (inputs,))
            loss = nn.functional.cross_entropy(outputs, targets)
            for p, gradient in zip(model.parameters(), torch.autograd.grad(loss, list(reading.values()))):
                p.grad = gradient
            optimizer.param_groups[0]["lr"] = lr
            optimizer.step()
            history.append([p.detach().clone() for p in model.parameters()])
    found = run(made)
    answer = found.people.module_at(found.algorithm.answer())
    torch.testing.assert_close(vector(answer), vector(model), rtol=1e-6, atol=1e-9)


def test_stages_without_a_partition_are_as_many_as_workers():
    made = setting("pipedream", workers=2)
    names = ["0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias"]
    delays, stages = delays_of(made, names)
    assert stages == 2 and delays[0] == 1 and delays[-1] == 0
    assert list(delays) == sorted(delays, reverse=True)
