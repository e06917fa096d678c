"""A trainer in a user's own script that was started by itself, and what it refuses."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import paceline
from paceline.artefact import save
from paceline.errors import FileError, PacelineError, UnavailableError, UnknownNameError
from paceline.launcher.local import run_module
from paceline.strategy.registry import make_plan


def model_and_optimizer(dtype=torch.float32):
    torch.manual_seed(0)
    model = nn.Linear(6, 3, dtype=dtype)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batches(dtype=torch.float32):
    source = torch.Generator().manual_seed(1)
    for _ in range(6):
        yield torch.randn(5, 6, generator=source).to(dtype), torch.randint(3, (5,), generator=source)


@pytest.mark.parametrize("plan", ["single", "allreduce", "localsgd", "dasgd"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_alone_it_is_a_plain_loop(plan, dtype):
    model, optimizer = model_and_optimizer(dtype)
    trainer = paceline.trainer(model, optimizer, plan=plan)
    losses = [trainer.step(batch, functional.cross_entropy) for batch in batches(dtype)]
    trainer.finish()
    plain, optimizer = model_and_optimizer(dtype)
    for (inputs, targets), loss in zip(batches(dtype), losses, strict=True):
        optimizer.zero_grad()
        wanted = functional.cross_entropy(plain(inputs), targets)
        wanted.backward()
        optimizer.step()
        assert loss == wanted.item()
    assert trainer.model is model
    assert torch.equal(model.weight, plain.weight)
    assert (trainer.exposed_seconds(), trainer.hidden_seconds()) == (0.0, 0.0)


def test_a_plan_or_its_file_will_do(tmp_path):
    plan = make_plan("single", 1, 32, {})
    for given in (plan, save(plan, tmp_path / "plan.json"), str(tmp_path / "plan.json")):
        trainer = paceline.trainer(*model_and_optimizer(), plan=given)
        assert trainer.step(next(batches()), functional.cross_entropy) > 0


def test_it_refuses_in_a_sentence(tmp_path):
    def refused(plan, **knobs) -> PacelineError:
        with pytest.raises(PacelineError) as caught:
            paceline.trainer(*model_and_optimizer(), plan=plan, **knobs)
        return caught.value

    assert isinstance(refused("dasdg"), UnknownNameError)
    assert "did you mean 'dasgd'" in str(refused("dasdg"))
    assert "plan.json: there is no such file" in str(refused(tmp_path / "plan.json"))
    assert "is not a knob of dasgd" in str(refused("dasgd", tua=4))
    assert "must be from 0 to tau (4)" in str(refused("dasgd", delay=9))
    assert isinstance(refused("pipedream"), UnavailableError)
    several = refused(make_plan("dasgd", 4, 8, {}))
    assert isinstance(several, FileError)
    assert str(several).startswith("plan: devices: is 4, and 1 process started; ")
    assert str(several).endswith("torchrun --nproc-per-node 4")


def test_a_script_may_end_while_an_average_travels(tmp_path, monkeypatch):
    script = """
import paceline, torch
model = torch.nn.Linear(2000, 2000)
trainer = paceline.trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), plan="dasgd", tau=1, delay=1)
trainer.step((torch.zeros(1, 2000), torch.zeros(1, dtype=torch.long)), torch.nn.functional.cross_entropy)
"""
    (tmp_path / "unfinished.py").write_text(script)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    failed = run_module("unfinished", [], 2, "unfinished", tmp_path / "logs")
    assert not failed, "".join(path.read_text() for path in (tmp_path / "logs").rglob("stderr.log"))
