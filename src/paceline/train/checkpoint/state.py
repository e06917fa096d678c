"""What a run is made of at a moment, as named tensors: weights, buffers, optimizer, strategy, random numbers.

model/NAME            weights and buffers, as the model's state_dict names them
optimizer/NAME/KEY    what the optimizer keeps for the weight of that name
strategy/KEY          what a runner keeps between steps, where it has ``state_dict`` and ``load_state_dict``
random/torch, random/python, random/numpy, random/cuda
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from paceline.errors import RunError
from paceline.strategy.contract import Runner
from paceline.train.checkpoint.manifest import Manifest, own_name


@runtime_checkable
class Keeping(Protocol):
    """A runner that keeps tensors of its own between steps: a base of differences, an average under way, counters."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return them; nothing may be under way in them."""
        ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        ...


def live_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors that training moves, by name: filling them is loading."""
    found: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            raise RunError(f"the model's state has {name}, which is no tensor; a checkpoint cannot hold it")
        found[f"model/{name}"] = value
    for name, parameter in _named(model, optimizer):
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                found[f"optimizer/{name}/{key}"] = value
            elif value is not None:
                raise RunError(f"the optimizer keeps {key} of {name}, which is no tensor; a checkpoint cannot hold it")
    return found


def whole_state(runner: Runner, optimizer: torch.optim.Optimizer, device: torch.device) -> dict[str, Tensor]:
    """Return all that a worker needs to go on as if nothing had happened."""
    kept = runner.state_dict() if isinstance(runner, Keeping) else {}
    strategy = {f"strategy/{key}": value for key, value in kept.items()}
    return live_tensors(runner.model, optimizer) | strategy | random_state(device)


def prepare_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, names: set[str]) -> None:
    """Have an optimizer make its state for the weights that have one among ``names``, to be filled.

    It takes one step of length 0 without gradients; weights that it never moved in the run that is resumed stay without
    state, since a buffer of zeros is not the same as none to come.
    """
    for name, parameter in _named(model, optimizer):
        wanted = any(stored.startswith(f"optimizer/{name}/") for stored in names)
        parameter.grad = torch.zeros_like(parameter) if wanted else None
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def stored_names(manifest: Manifest, rank: int) -> dict[str, str]:
    """Return, for a worker, where each tensor is stored; of more workers than wrote, some take the same ones' own."""
    owner = rank % manifest.workers
    prefix = own_name(owner, "")
    names = {name: name for name in manifest.tensors if not name.startswith("own/")}
    return names | {name.removeprefix(prefix): name for name in manifest.tensors if name.startswith(prefix)}


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that training may use."""
    version, numbers, gauss = random.getstate()
    kind, keys, place, has_gauss, cached = np.random.get_state(legacy=True)
    assert version == 3 and kind == "MT19937"
    found = {
        "random/torch": torch.get_rng_state(),
        "random/python": torch.tensor(numbers, dtype=torch.int64),
        "random/python-gauss": torch.tensor([gauss is not None, gauss or 0.0], dtype=torch.float64),
        "random/numpy": torch.tensor([*map(int, keys), int(place), int(has_gauss)], dtype=torch.int64),
        "random/numpy-gauss": torch.tensor([float(cached)], dtype=torch.float64),
    }
    if device.type == "cuda":
        found["random/cuda"] = torch.cuda.get_rng_state(device)
    return found


def set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Set the generators to where they stood."""
    torch.set_rng_state(state["random/torch"])
    has, gauss = state["random/python-gauss"].tolist()
    random.setstate((3, tuple(state["random/python"].tolist()), gauss if has else None))
    *keys, place, has_gauss = state["random/numpy"].tolist()
    cached = float(state["random/numpy-gauss"])
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), place, has_gauss, cached))
    if device.type == "cuda" and "random/cuda" in state:
        torch.cuda.set_rng_state(state["random/cuda"], device)


def _named(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[tuple[str, nn.Parameter]]:
    """Return the optimizer's parameters by the model's names for them."""
    names: dict[Any, str] = {parameter: name for name, parameter in model.named_parameters()}
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if any(parameter not in names for parameter in held):
        raise RunError("the optimizer holds weights that the model has not; a checkpoint cannot name them")
    return [(names[parameter], parameter) for parameter in held]
