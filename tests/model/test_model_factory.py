"""A user's own model: what works, and every way it can fail as one sentence that names the key."""

import os
import sys

import pytest
import torch

from paceline.errors import FileError
from paceline.model.importing import in_one_line
from paceline.model.source import load_model
from paceline.model.spec import ModelSpec

HEADER = "import torch\nfrom torch import nn\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text, name="net.py"):
        (tmp_path / name).write_text(HEADER + text)
        return tmp_path

    return write


def load(base, name="net.py:build", input="3x8x8", **keys):
    return load_model(ModelSpec(name=name, input=input, **keys), "job.toml", base)


GOOD = """
def build():
    return nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 6))
"""


def test_a_factory_in_a_file(write):
    source = load(write(GOOD))
    assert (source.family, source.targets.kind, source.targets.classes) == ("user", "class", 6)
    inputs, targets = source.example(2, seed=0)
    model = source.build()
    assert model.training
    source.loss(model(inputs), targets).backward()


def test_a_factory_in_a_module_beside_the_job(write):
    base = write(GOOD, "a_module_of_a_user.py")
    assert load(base, "a_module_of_a_user:build").targets.classes == 6


def test_a_file_may_import_its_neighbours(write):
    write("WIDTH = 9\n", "neighbour_of_net.py")
    base = write(
        "from neighbour_of_net import WIDTH\ndef build(): return nn.Sequential(nn.Flatten(), nn.Linear(192, WIDTH))\n"
    )
    assert load(base).targets.classes == 9


def test_a_changed_file_is_read_again(write):
    base = write(GOOD)
    assert load(base).targets.classes == 6
    write(GOOD.replace("(4, 6)", "(4, 11)"))
    assert load(base).targets.classes == 11


def test_an_edit_of_equal_length_is_read_again(write):
    base = write(GOOD)
    load(base)
    write(GOOD.replace("(4, 6)", "(4, 7)"))
    os.utime(base / "net.py", ns=(1, 1))
    assert load(base).targets.classes == 7


def test_token_models(write):
    base = write(
        "class Tiny(nn.Module):\n"
        "    def __init__(self, last):\n"
        "        super().__init__()\n"
        "        self.table, self.last = nn.Embedding(50, 8), last\n"
        "        self.head = nn.Linear(8, 50)\n"
        "    def forward(self, x):\n"
        "        y = self.head(self.table(x))\n"
        "        return y[:, -1] if self.last else y\n"
        "def every(): return Tiny(False)\n"
        "def last(): return Tiny(True)\n"
    )
    every = load(base, "net.py:every", "tokens:16x50")
    assert (every.targets.kind, every.targets.classes, every.inputs.shape) == ("tokens", 50, (16,))
    inputs, targets = every.example(2)
    assert inputs.dtype == torch.int64 and targets.shape == (2, 16)
    last = load(base, "net.py:last", "tokens:16x50")
    assert last.targets.kind == "class" and last.example(2)[1].shape == (2,)


def test_a_model_that_fake_tensors_cannot_follow_is_tried_for_real(write):
    base = write(
        "class Odd(nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x) * float(x.sum() > 0)\n"
        "def build(): return Odd(8, 3)\n"
    )
    assert load(base, input="8").targets.classes == 3


def test_a_huge_model_is_tried_without_memory(write):
    base = write("def build(): return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 1 << 35), nn.Linear(1 << 35, 5))")
    assert load(base).targets.classes == 5


def test_the_trial_leaves_random_state_and_mode_alone(write):
    base = write("MODEL = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(192, 5))\ndef build(): return MODEL")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    source = load(base)
    assert torch.equal(before, torch.get_rng_state())
    assert all(module.training for module in source.build().modules())


def test_a_loss_and_outputs_of_ones_own(write):
    base = write(
        "class Two(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(192, 5)\n"
        "    def forward(self, x): return {'scores': self.layer(x.flatten(1))}\n"
        "def build(): return Two()\n"
        "def score(outputs, targets): return nn.functional.cross_entropy(outputs['scores'], targets)\n"
    )
    source = load(base, loss="net.py:score", classes=5)
    inputs, targets = source.example(2)
    assert source.loss(source.build()(inputs), targets).dim() == 0


def fails(key, sentence, base, **keys):
    with pytest.raises(FileError) as failure:
        load(base, **keys)
    text = str(failure.value)
    assert text.startswith(f"job.toml: {key}: "), text
    assert sentence in text
    assert "\n" not in text and len(text) < 700
    return text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def build(:\n", "cannot be imported: SyntaxError: invalid syntax (line 3)"),
        (
            "import no_such_thing\n",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_thing' (line 3)",
        ),
        ("raise SystemExit('bye')\n", "cannot be imported: SystemExit: bye (line 3)"),
        ("def built(): pass\n", "net.py has no 'build'; did you mean 'built'?"),
        ("build = 5\n", "is of type int, which cannot be called"),
        ("def build():\n    raise KeyError('a\\nb')\n", "net.py:build fails with KeyError: 'a\\nb' (line 4)"),
        ("def build(): raise ValueError('a\\n   b' + 'c' * 999)\n", "fails with ValueError: a bccc"),
        ("def build(width): pass\n", "net.py:build fails with TypeError: build() missing 1 required"),
        ("def build(): return 5\n", "returns something of type int, must return a torch.nn.Module"),
    ],
)
def test_wrong_factories(write, text, sentence):
    fails("model.name", sentence, write(text))


def test_wrong_references(write, tmp_path):
    fails("model.name", "there is no file", tmp_path, name="none.py:build")
    fails("model.name", "is not a file", tmp_path.parent, name=f"{tmp_path}/:build")
    fails("model.name", "must be 'pkg.module:name'", tmp_path, name=":build")
    fails("model.name", "must be 'pkg.module:name'", tmp_path, name="net.py:build()")
    fails("model.name", "neither a module nor a file", tmp_path, name="a b:build")
    fails("model.name", "it is neither installed nor in", tmp_path, name="no_such_module_of_mine:build")
    (tmp_path / "net.txt").write_text("")
    fails("model.name", "is not a Python file", tmp_path, name="./net.txt:build")


def test_inputs_that_do_not_fit(write):
    text = fails(
        "model.input",
        "is 4x8x8, and net.py:build fails on 2 such samples with RuntimeError",
        write(GOOD),
        input="4x8x8",
    )
    assert "expected" in text
    fails("model.input", "is missing; a model of your own needs one", write(GOOD), input=None)
    fails("model.variant", "is for the suite's models", write(GOOD), variant="mnist")


def test_outputs_that_cannot_be_scored(write):
    base = write("def build(): return nn.LSTM(8, 8)\n")
    fails("model.name", "returns something of type tuple; return class scores as one tensor", base, input="5x8")
    fails(
        "model.name",
        "returns 2x4x6x6 for 2 samples, not 2xCLASSES",
        write("def build(): return nn.Conv2d(3, 4, 3)"),
    )
    fails(
        "model.name",
        "not floating-point scores",
        write(
            "class Top(nn.Module):\n"
            "    def forward(self, x): return x.flatten(1).argsort()\n"
            "def build(): return Top()\n"
        ),
    )
    fails("model.classes", "is 7, but net.py:build scores only 6 classes", write(GOOD), classes=7)


def test_losses_that_do_not_work(write):
    base = write(GOOD + "def worse(o, t): return o\ndef broken(o, t): return o @ t\ndef none(o, t): pass\n")
    fails(
        "model.loss",
        "net.py:worse returns a tensor of 2x6, must return one number",
        base,
        loss="net.py:worse",
    )
    fails(
        "model.loss",
        "net.py:broken fails on the model's output with RuntimeError",
        base,
        loss="net.py:broken",
    )
    fails("model.loss", "net.py:none returns None", base, loss="net.py:none")
    fails("model.loss", "net.py has no 'gone'", base, loss="net.py:gone")


def test_a_loss_that_looks_at_values_is_tried_for_real(write):
    base = write(GOOD + "def score(o, t): return o.sum() * (2.0 if o.sum().item() > 0 else 1.0)\n")
    assert load(base, loss="net.py:score").targets.classes == 6


def test_a_loss_for_a_model_of_the_suite(write):
    base = write("def score(o, t): return o.sum()\n")
    source = load(base, name="cnn", loss="net.py:score")
    assert source.loss(torch.ones(2, 2), None).item() == 4


def test_messages_are_flat_and_short():
    assert in_one_line(ValueError()) == "ValueError"
    assert len(in_one_line(ValueError("x\n" * 5000))) == 200
