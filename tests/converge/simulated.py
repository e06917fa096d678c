"""Settings of simulations small enough to follow by hand, and a plain reference to hold them against."""

import math

import torch
from torch import nn

from paceline.converge.setting import Setting
from paceline.converge.simulate import Simulation
from paceline.data.shard import epoch_order, shard, steps_per_epoch
from paceline.data.source import DataSource
from paceline.model.source import ModelSource
from paceline.model.spec import InputSpec, TargetSpec
from paceline.strategy.registry import make_plan
from paceline.train.optimizer import set_rate, setting_of
from paceline.train.schedule import learning_rate, schedule_for
from paceline.train.smoothing import smoothed
from paceline.train.spec import TrainSpec

SHAPE, CLASSES = (2, 6, 6), 3


class Kept:
    """Samples in float64, so that nothing is lost in rounding."""

    def __init__(self, count, seed=0):
        draw = torch.Generator().manual_seed(seed)
        self.targets = torch.randint(CLASSES, (count,), generator=draw)
        noise = torch.randn(count, *SHAPE, dtype=torch.float64, generator=draw)
        self.inputs = noise + self.targets.view(-1, 1, 1, 1)

    def __len__(self):
        return len(self.targets)

    def batch(self, indices):
        return self.inputs[indices], self.targets[indices]


def network():
    """A convolution, batch norm, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, CLASSES)
    )


def setting(strategy="allreduce", workers=4, samples=101, factory=network, formulation="", batch=4, **rest):
    """A setting; what is not a knob of the strategy is a key of the recipe."""
    recipe = {"epochs": 3, "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "precision": "fp64", "seed": 5}
    knobs = {key: rest.pop(key) for key in list(rest) if key not in TrainSpec.model_fields}
    recipe |= {"batch_per_device": batch, "schedule": "one-cycle"} | rest
    source = ModelSource("toy", "cnn", InputSpec(SHAPE, "float32"), TargetSpec("class", CLASSES), factory)
    return Setting(
        source=source,
        data=DataSource("kept", Kept(samples), Kept(20, seed=1), CLASSES),
        spec=TrainSpec(**recipe),
        plan=make_plan(strategy, workers, batch, knobs),
        formulation=f"blocks of {min(workers, 4)}" if formulation == "" else formulation,
        lanes=1,
    )


def run(made, steps=None):
    """Simulate and return the simulation, with the rows of its workers after so many steps."""
    simulation = Simulation(made)
    step = 0
    with simulation.crew:
        for epoch in range(made.spec.epochs):
            for batch in simulation.batches(epoch):
                if step == (steps if steps is not None else simulation.last):
                    return simulation
                simulation.algorithm.step(batch, learning_rate(simulation.schedule, step), step)
                step += 1
    return simulation


def vector(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def rows(simulation):
    """The workers' weights without padding."""
    return torch.stack([vector(simulation.people.module(n)) for n in range(simulation.people.workers)])


def write(module, values):
    nn.utils.vector_to_parameters(values.clone(), module.parameters())  # a copy, or all modules would share one


class Reference:
    """FACTS' pseudo-code, worker by worker, with torch's own optimizers."""

    def __init__(self, made):
        spec, self.workers = made.spec, made.workers
        self.samples = made.data.train
        self.batch = made.global_batch
        per_epoch = steps_per_epoch(len(self.samples), self.batch, self.workers)
        self.schedule = schedule_for(spec, self.batch, self.workers, per_epoch)
        self.spec = spec
        self.models, self.optimizers = [], []
        for _ in range(self.workers):
            torch.manual_seed(spec.seed)
            self.models.append(made.source.build().double().train())
            self.optimizers.append(setting_of(spec).make(self.models[-1]))
        self.loss = smoothed(made.source.loss, spec.label_smoothing)

    def steps(self):
        """Yield the number of every step with its learning rate and the workers' shards."""
        step = 0
        for epoch in range(self.spec.epochs):
            order = epoch_order(len(self.samples), self.spec.seed, epoch)
            for parts in zip(*(shard(order, self.batch, self.workers, n) for n in range(self.workers))):
                yield step, learning_rate(self.schedule, step), parts
                step += 1

    def local(self, worker, part, lr):
        """A local optimizer step on the worker's own batch."""
        optimizer = self.optimizers[worker]
        set_rate(optimizer, lr, correct=self.spec.momentum_correction)
        optimizer.zero_grad()
        inputs, targets = self.samples.batch(part.indices)
        loss = self.loss(self.models[worker](inputs), targets)
        assert math.isfinite(float(loss.detach()))
        loss.backward()
        optimizer.step()

    def mean(self):
        return torch.stack([vector(model) for model in self.models]).mean(0)

    def rows(self):
        return torch.stack([vector(model) for model in self.models])
