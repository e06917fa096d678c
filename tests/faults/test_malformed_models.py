"""Models, losses and data sets of a user's own that do not work: the key and the user's line are named."""

import gzip
import struct

import pytest

HEADER = "import torch\nfrom torch import nn\n"
NET = "nn.Sequential(nn.Flatten(), nn.Linear(64, 10))"

# file's text, the factory's name, what the sentence must say
FACTORIES = {
    "syntax error": ("def build(:\n", "build", "SyntaxError: invalid syntax (line 3)"),
    "indentation": ("def build():\nreturn 1\n", "build", "IndentationError"),
    "import fails": ("import no_such_package\n", "build", "No module named 'no_such_package' (line 3)"),
    "import exits": ("raise SystemExit(3)\n", "build", "SystemExit: 3 (line 3)"),
    "import divides": ("1 / 0\n", "build", "ZeroDivisionError"),
    "no such function": ("def biuld():\n    return 1\n", "build", "did you mean 'biuld'?"),
    "not callable": ("build = 3\n", "build", "of type int, which cannot be called"),
    "raises": ("def build():\n    raise RuntimeError('no weights')\n", "build", "no weights (line 4)"),
    "raises many lines": ("def build():\n    raise ValueError('a\\n\\nb' * 500)\n", "build", "ValueError: a b"),
    "exits": ("def build():\n    raise SystemExit(1)\n", "build", "SystemExit"),
    "wants an argument": ("def build(width):\n    return nn.Flatten()\n", "build", "missing 1 required positional"),
    "returns none": ("def build():\n    pass\n", "build", "NoneType, must return a torch.nn.Module"),
    "returns a class": ("def build():\n    return nn.Flatten\n", "build", "of type type, must return"),
    "returns a tensor": ("def build():\n    return torch.zeros(3)\n", "build", "must return a torch.nn.Module"),
    "wrong width": ("def build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(63, 10))\n", "build", "input"),
    "wrong channels": ("def build():\n    return nn.Conv2d(3, 4, 3)\n", "build", "is 1x8x8, and net.py:build fails"),
    "an image": ("def build():\n    return nn.Conv2d(1, 4, 3)\n", "build", "returns 2x4x6x6 for 2 samples"),
    "one score": ("def build():\n    return nn.Sequential(nn.Flatten(), nn.Flatten(0))\n", "build", "2xCLASSES"),
    "two outputs": (
        "class Two(nn.Module):\n    def forward(self, x):\n        return x, x\ndef build():\n    return Two()\n",
        "build",
        "of type tuple",
    ),
    "forward fails": (
        "class Bad(nn.Module):\n    def forward(self, x):\n        return x.no_such()\n"
        "def build():\n    return Bad()\n",
        "build",
        "has no attribute 'no_such' (line 5)",
    ),
    "integers": (
        "class Low(nn.Module):\n    def forward(self, x):\n        return x.flatten(1).long()\n"
        "def build():\n    return Low()\n",
        "build",
        "not floating-point scores",
    ),
    "no name": ("", "", "must be 'pkg.module:name' or 'file.py:name'"),
    "odd name": ("", "b u", "must be 'pkg.module:name' or 'file.py:name'"),
}


@pytest.mark.parametrize(("text", "name", "says"), FACTORIES.values(), ids=FACTORIES.keys())
def test_factory(desk, refused, text, name, says):
    (desk / "net.py").write_text(HEADER + text)
    (desk / "job.toml").write_text(f'[model]\nname = "net.py:{name}"\ninput = "1x8x8"\n')
    sentence = refused("predict", "job.toml")
    assert sentence.startswith(("job.toml: model.name: ", "job.toml: model.input: ")) and says in sentence
    assert len(sentence) < 400


MODELS = {
    "no file": ({"name": "other.py:build", "input": "1x8x8"}, "name", "there is no file"),
    "no module": ({"name": "no_such_module:build", "input": "1x8x8"}, "name", "neither installed nor in"),
    "no submodule": ({"name": "torch.no_such:build", "input": "1x8x8"}, "name", "cannot be imported"),
    "no attribute": ({"name": "torch.nn:Lineer", "input": "1x8x8"}, "name", "did you mean 'Linear'?"),
    "not a file": ({"name": "folder/:build", "input": "1x8x8"}, "name", "is not a file"),
    "not Python": ({"name": "net/weights.bin:build", "input": "1x8x8"}, "name", "there is no file"),
    "dashes": ({"name": "my-module:build", "input": "1x8x8"}, "name", "neither a module nor a file"),
    "no input": ({"name": "net.py:build"}, "input", "is missing"),
    "bad input": ({"name": "net.py:build", "input": "8 x 8"}, "input", "must be sides"),
    "a variant": ({"name": "net.py:build", "input": "1x8x8", "variant": "mnist"}, "variant", "give model.input"),
    "more classes": ({"name": "net.py:build", "input": "1x8x8", "classes": 11}, "classes", "scores only 10"),
    "no loss file": ({"name": "net.py:build", "input": "1x8x8", "loss": "l.py:loss"}, "loss", "there is no file"),
    "no loss": ({"name": "net.py:build", "input": "1x8x8", "loss": "net.py:los"}, "loss", "did you mean 'loss'?"),
    "loss raises": ({"name": "net.py:build", "input": "1x8x8", "loss": "net.py:bad"}, "loss", "odd loss (line 6)"),
    "loss of two": (
        {"name": "net.py:build", "input": "1x8x8", "loss": "net.py:many"},
        "loss",
        "must return one number",
    ),
    "loss is none": ({"name": "net.py:build", "input": "1x8x8", "loss": "net.py:none"}, "loss", "returns None"),
    "suite loss": ({"name": "cnn", "loss": "net.py:lost"}, "loss", "net.py has no 'lost'"),
}


@pytest.mark.parametrize(("keys", "key", "says"), MODELS.values(), ids=MODELS.keys())
def test_model_keys(desk, refused, keys, key, says):
    (desk / "folder").mkdir()
    (desk / "net.py").write_text(
        f"{HEADER}def build():\n    return {NET}\n"
        "def bad(outputs, targets):\n    raise ValueError('odd loss')\n"
        "def many(outputs, targets):\n    return outputs.sum(1)\n"
        "def none(outputs, targets):\n    pass\n"
        "def loss(outputs, targets):\n    return outputs.sum()\n"
    )
    (desk / "job.toml").write_text("[model]\n" + "".join(f"{name} = {_toml(v)}\n" for name, v in keys.items()))
    sentence = refused("predict", "job.toml", "--json")
    assert sentence.startswith(f"job.toml: model.{key}: ") and says in sentence


def _toml(value):
    return value if isinstance(value, int) else f'"{value}"'


def idx(*sizes, kind=8, extra=0):
    count = 1
    for size in sizes:
        count *= size
    return bytes((0, 0, kind, len(sizes))) + struct.pack(f">{len(sizes)}I", *sizes) + bytes(max(count + extra, 0))


GOOD = {"train-images-idx3-ubyte": idx(20, 28, 28), "train-labels-idx1-ubyte": idx(20)}
DATA = {
    # files, data.name, what the sentence must say
    "no folder": ({}, "idx:set", "set: there is no such folder"),
    "empty folder": ({"other": b""}, "idx:set", "no train-images-idx*-ubyte file"),
    "no labels": ({"train-images-idx3-ubyte": idx(20, 28, 28)}, "idx:set", "no train-labels"),
    "truncated": (GOOD | {"train-images-idx3-ubyte": idx(20, 28, 28, extra=-5)}, "idx:set", "promises 15680 bytes"),
    "too long": (GOOD | {"train-images-idx3-ubyte": idx(20, 28, 28, extra=5)}, "idx:set", "it has more"),
    "no header": (GOOD | {"train-images-idx3-ubyte": idx(20, 28, 28)[:9]}, "idx:set", "ends within its header"),
    "empty file": (GOOD | {"train-images-idx3-ubyte": b""}, "idx:set", "is not an IDX file"),
    "a text": (GOOD | {"train-images-idx3-ubyte": b"hello world"}, "idx:set", "is not an IDX file"),
    "floats": (GOOD | {"train-images-idx3-ubyte": idx(20, 28, 28, kind=13)}, "idx:set", "type 0x0d"),
    "no samples": ({k: idx(0, 28, 28) if "image" in k else idx(0) for k in GOOD}, "idx:set", "holds no samples"),
    "fewer labels": (GOOD | {"train-labels-idx1-ubyte": idx(19)}, "idx:set", "has 19 labels"),
    "a flat image": (GOOD | {"train-images-idx3-ubyte": idx(20, 784)}, "idx:set", "images have three"),
    "bad zip": (GOOD | {"train-images-idx3-ubyte": gzip.compress(idx(20, 28, 28))[:40]}, "idx:set", "cannot be read"),
    "another size": (
        {"train-images-idx3-ubyte": idx(20, 8, 8), "train-labels-idx1-ubyte": idx(20)},
        "idx:set",
        "samples of 1x8x8, but the model takes 1x28x28",
    ),
    "validation's size": (
        GOOD | {"t10k-images-idx3-ubyte": idx(2, 9, 9), "t10k-labels-idx1-ubyte": idx(2)},
        "idx:set",
        "differ",
    ),
    "not fetched": ({}, "mnist", "paceline data fetch mnist"),
    "not fetched either": ({}, "fashion-mnist", "paceline data fetch fashion-mnist"),
    "no image folder": ({}, "folder:set", "there is no such folder"),
    "no classes": ({"a.png": b""}, "folder:set", "has no folder in it"),
    "no images": ({"cat/a.txt": b""}, "folder:set", "has no image in its class folders"),
    "a class too many": ({"train/cat/a.png": b"", "val/dog/b.png": b""}, "folder:set", "has a class 'dog'"),
    "eleven classes": ({f"{n}/a.png": b"" for n in range(11)}, "folder:set", "11 classes, but the model only 10"),
    "no CIFAR": ({"x": b""}, "cifar10:set", "there is no data_batch_*.bin"),
    "CIFAR cut short": ({"data_batch_1.bin": bytes(3072)}, "cifar10:set", "not a multiple of 3073"),
    "no synthetic set": ({"x": b""}, "synthetic:set", "is not a synthetic set"),
    "a damaged header": ({"synthetic.json": b"{"}, "synthetic:set", "is not valid JSON"),
    "another header": (
        {"synthetic.json": b'{"kind": "plan", "version": 1}'},
        "synthetic:set",
        "'synthetic-data' is needed",
    ),
    "no such function": ({"data.py": b"x = 1"}, "set/data.py:load", "has no 'load'"),
    "function raises": (
        {"data.py": b"def load():\n    raise OSError('disk')"},
        "set/data.py:load",
        "OSError: disk (line 2)",
    ),
    "returns nothing": ({"data.py": b"def load():\n    pass"}, "set/data.py:load", "returns no training set"),
    "returns a number": (
        {"data.py": b"def load():\n    return 3"},
        "set/data.py:load",
        "of type int, must be a Dataset",
    ),
    "returns no samples": ({"data.py": b"def load():\n    return []"}, "set/data.py:load", "an empty set"),
    "odd samples": ({"data.py": b"def load():\n    return [1, 2]"}, "set/data.py:load", "cannot be made into a batch"),
    "other samples": (
        {"data.py": b"import torch\ndef load():\n    return [(torch.zeros(3, 4), 1)]"},
        "set/data.py:load",
        "has samples of 3x4, but the model takes 1x28x28",
    ),
    "other classes": (
        {"data.py": b"import torch\ndef load():\n    return [(torch.zeros(1, 28, 28), 10)]"},
        "set/data.py:load",
        "has a target 10, but the model has classes 0 to 9",
    ),
}


@pytest.mark.parametrize(("files", "name", "says"), DATA.values(), ids=DATA.keys())
def test_data(desk, refused, files, name, says):
    for file, content in files.items():
        path = desk / "set" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (desk / "job.toml").write_text(f'[model]\nname = "cnn"\n[data]\nname = "{name}"\n')
    sentence = refused("predict", "job.toml")
    assert says in sentence
    assert sentence.startswith(("job.toml: data.name: ", "set"))
