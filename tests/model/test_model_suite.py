"""The suite's networks: parameter counts, output shapes, building without memory."""

import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from paceline.errors import FileError
from paceline.model.bert import BERT
from paceline.model.gpt import GPT
from paceline.model.resnet import Basic, ResNet
from paceline.model.source import load_model
from paceline.model.spec import ModelSpec
from paceline.model.suite import SUITE, list_models
from paceline.model.transformer import TransformerSize
from paceline.model.variant import VARIANTS, variant_of_shape

# The table of the recommender thesis: (large images, CIFAR-10).
COUNTS = {
    "resnet18": (11_689_512, 11_173_962),
    "resnet50": (25_557_032, 23_520_842),
    "resnet152": (60_192_808, 58_156_618),
    "vgg11": (132_863_336, 9_231_114),
    "vgg16": (138_357_544, 14_728_266),
    "mobilenet_v2": (3_504_872, 2_296_922),
}
# The first convolution's filters of 3x3: MNIST has two input channels fewer.
FIRST = {"mobilenet_v2": 32}
TRANSFORMERS = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt-13b": 12_853_386_240,
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
}


def count(name, variant=None, **keys):
    with torch.device("meta"):
        model = load_model(ModelSpec(name=name, variant=variant, **keys)).build()
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts_are_those_of_the_thesis(name):
    large, small = COUNTS[name]
    assert count(name, "imagenet") == large
    assert count(name, "highres") == large
    assert count(name, "cifar10") == small
    assert count(name, "mnist") == small - 2 * 9 * FIRST.get(name, 64)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_have_their_published_sizes(name):
    assert count(name) == TRANSFORMERS[name]


def test_a_shorter_sequence_leaves_the_parameters_alone():
    assert count("gpt2", input="128") == TRANSFORMERS["gpt2"]


def test_small_models_are_small():
    assert 20_000 < count("cnn", input="3x32x32") < 100_000
    assert 70_000 < count("resnet8", input="3x32x32") < 80_000


@pytest.mark.parametrize("name", ["resnet18", "vgg11", "mobilenet_v2"])
@pytest.mark.parametrize("variant", ["mnist", "cifar10"])
def test_a_batch_of_images_gives_class_scores(name, variant):
    source = load_model(ModelSpec(name=name, variant=variant))
    inputs, targets = source.example(2, seed=0)
    assert inputs.shape == (2, *VARIANTS[variant].shape)
    scores = source.build()(inputs)
    assert scores.shape == (2, 10)
    assert source.loss(scores, targets).dim() == 0


@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet8"])
@pytest.mark.parametrize("text", ["1x8x8", "3x17x9"])
def test_small_models_take_any_image(name, text):
    source = load_model(ModelSpec(name=name, input=text, classes=7))
    inputs, targets = source.example(3)
    loss = source.loss(source.build()(inputs), targets)
    loss.backward()
    assert source.targets.classes == 7


# One of each form: the others run the same code, larger.
FORMS = [
    entry
    for entry in list_models()
    if entry.variant != "highres" and entry.name not in ("resnet152", "vgg16", "gpt2-large", "gpt2-xl")
]


@pytest.mark.parametrize("entry", FORMS, ids=lambda entry: f"{entry.name}-{entry.variant}")
def test_every_listed_model_builds_and_runs_on_fake_tensors(entry):
    source = load_model(ModelSpec(name=entry.name, variant=entry.variant))
    with FakeTensorMode():
        inputs, targets = source.example(2, seed=0)
        loss = source.loss(source.build()(inputs), targets)
        loss.backward()
    assert loss.shape == ()


def test_there_are_24_networks_of_the_thesis():
    assert sum(entry.variant is not None for entry in list_models()) == 24
    assert {entry.name for entry in list_models()} == set(SUITE)


def test_listing_imports_no_torch():
    code = "import sys, paceline.model.suite, paceline.model.source; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_equal_seeds_give_equal_weights_and_examples():
    source = load_model(ModelSpec(name="gpt-nano", input="16"))
    made = []
    for _ in range(2):
        torch.manual_seed(3)
        made.append((source.build().state_dict(), source.example(2, seed=5)))
    (first, (x, y)), (second, (u, v)) = made
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert torch.equal(x, u) and torch.equal(y, v)
    assert not torch.equal(x, source.example(2, seed=6)[0])


@pytest.mark.parametrize(("network", "sees"), [(GPT, False), (BERT, True)])
def test_a_decoder_does_not_see_the_future_and_an_encoder_does(network, sees):
    model = network(TransformerSize(2, 16, 2, 10, 8)).eval()
    tokens = torch.zeros(1, 8, dtype=torch.int64)
    other = tokens.clone()
    other[0, -1] = 5
    with torch.no_grad():
        change = (model(tokens)[0, 0] - model(other)[0, 0]).abs().max().item()
    assert (change > 0) is sees


def test_the_transformers_heads_are_tied():
    for name in ("gpt-nano", "bert-base"):
        with torch.device("meta"):
            model = load_model(ModelSpec(name=name)).build()
        assert model.head.weight is model.tokens.weight


def test_initial_scales():
    torch.manual_seed(0)
    model = load_model(ModelSpec(name="gpt-nano")).build()
    block = model.blocks[0]
    assert block.up.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert block.down.weight.std().item() == pytest.approx(0.02 / 8**0.5, rel=0.05)
    assert block.norm1.weight.eq(1).all() and block.up.bias.eq(0).all()


def test_blocks_whose_last_norm_is_zero_are_their_shortcuts():
    model = ResNet(Basic, (1, 1), 3, 2, small_images=True, widths=(4, 8))
    for stage in model.stages:
        assert stage[0].last_norm.weight.eq(1).all()
        torch.nn.init.zeros_(stage[0].last_norm.weight)
    x = torch.rand(2, 4, 6, 6)
    assert torch.equal(model.stages[0](x), x)
    assert torch.equal(model.stages[1](x), model.stages[1][0].shortcut(x).relu())


def test_default_loss_is_the_mean_over_all_positions():
    source = load_model(ModelSpec(name="gpt-nano"))
    outputs, targets = torch.randn(2, 3, 5), torch.randint(5, (2, 3))
    by_hand = -outputs.log_softmax(-1).gather(-1, targets[..., None]).mean()
    torch.testing.assert_close(source.loss(outputs, targets), by_hand)


def test_a_variant_is_found_by_its_shape():
    assert variant_of_shape((3, 224, 224)).name == "imagenet"
    assert variant_of_shape((3, 99, 99)) is None


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"name": "resnet5"}, "model.name: there is no model 'resnet5'; did you mean 'resnet50'"),
        ({"name": "net.py"}, "model.name: is 'net.py', needs the factory's name: 'net.py:build'"),
        (
            {"name": "resnet50", "variant": "cifar"},
            "model.variant: there is no variant 'cifar'; did you mean 'cifar10'",
        ),
        (
            {"name": "resnet50", "input": "tokens:5x6"},
            "model.input: is 'tokens:5x6', must be channels x height x width",
        ),
        ({"name": "resnet50", "input": "3*5*5"}, "model.input: is '3*5*5', must be sides"),
        ({"name": "resnet50", "input": "0x5x5"}, "no sample has such a size"),
        (
            {"name": "vgg11", "input": "3x16x16"},
            "model.input: is 3x16x16, but vgg11 needs at least 32 pixels",
        ),
        ({"name": "resnet50", "classes": 0}, "model.classes: is 0, must be at least 1"),
        ({"name": "gpt2", "variant": "mnist"}, "model.variant: is 'mnist', but gpt2 has none"),
        ({"name": "gpt2", "classes": 5}, "model.classes: is 5, but gpt2 has none"),
        ({"name": "gpt2", "input": "2048"}, "model.input: is 2048, but gpt2 reads at most 1024 tokens"),
        ({"name": "gpt2", "input": "3x4"}, "model.input: is '3x4', must be a length such as '1024'"),
    ],
)
def test_a_wrong_model_section_is_one_sentence(keys, sentence):
    with pytest.raises(FileError) as failure:
        load_model(ModelSpec(**keys), "job.toml")
    assert str(failure.value).startswith("job.toml: model.")
    assert sentence in str(failure.value)
