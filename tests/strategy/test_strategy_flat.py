"""Weights in flat buffers: what is left out, what types they have, how they are filled and merged."""

import pytest
import torch
from torch import nn

from paceline.strategy.flat import flat_weights


class Of(nn.Module):
    def __init__(self, *weights: torch.Tensor) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(weight) for weight in weights)


def test_a_buffer_a_type_as_large_as_its_trained_weights():
    model = Of(torch.zeros(2, 3), torch.zeros(4).double(), torch.zeros(5), torch.zeros(2, dtype=torch.complex64))
    model.weights[2].requires_grad_(False)
    model.register_buffer("statistics", torch.zeros(100))
    assert [(flat.buffer.dtype, flat.buffer.numel()) for flat in flat_weights(model)] == [
        (torch.float32, 6 + 2 * 2),  # a complex number is a pair
        (torch.float64, 4),
    ]


def test_a_weight_that_two_layers_share_travels_once():
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    assert sum(flat.buffer.numel() for flat in flat_weights(nn.Sequential(first, second))) == 9


def test_a_model_without_trained_weights_has_none():
    assert flat_weights(nn.BatchNorm1d(3, affine=False)) == ()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_buffer_holds_weights_in_one_order_whatever_their_memory(layout):
    values = torch.randn(4, 3, 2, 2)
    (flat,) = flat_weights(Of(values.clone().to(memory_format=layout)))
    flat.take()
    assert torch.equal(flat.buffer, values.flatten())


def test_weights_become_the_buffer_or_lean_towards_it():
    model = Of(torch.tensor([1.0, 2.0]), torch.tensor([[8.0]]))
    (flat,) = flat_weights(model)
    places = [weight.data_ptr() for weight in model.parameters()]
    flat.buffer.copy_(torch.tensor([5.0, 6.0, 0.0]))
    flat.give(keep=0.25)
    assert [weight.tolist() for weight in model.parameters()] == [[4.0, 5.0], [[2.0]]]
    flat.give()
    assert [weight.tolist() for weight in model.parameters()] == [[5.0, 6.0], [[0.0]]]
    assert [weight.data_ptr() for weight in model.parameters()] == places  # in place


def test_half_precision_stays_so():
    model = Of(torch.tensor([1.0], dtype=torch.bfloat16))
    (flat,) = flat_weights(model)
    flat.take()
    flat.buffer.mul_(3)
    flat.give(keep=0.5)
    assert model.weights[0].dtype == flat.buffer.dtype == torch.bfloat16
    assert model.weights[0].item() == 2


def test_parts_are_scaled_one_by_one():
    (flat,) = flat_weights(Of(torch.ones(2), torch.ones(1)))
    for factors, wanted in (([2.0, 2.0], [2, 2, 2]), ([2.0, -1.0], [4, 4, -2])):
        if factors[0] == factors[1]:
            flat.take()
        flat.scale(factors)
        assert flat.buffer.tolist() == wanted
