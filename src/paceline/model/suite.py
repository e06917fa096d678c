"""The suite: every network that Paceline brings along, by name. Listing it imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from paceline.model.spec import InputSpec, TargetSpec
from paceline.model.transformer import BERT_SIZES, GPT_SIZES, TransformerSize
from paceline.model.variant import VARIANTS

if TYPE_CHECKING:
    from torch import nn

Family = Literal["resnet", "vgg", "mobilenet", "gpt", "bert", "small"]


@dataclass(frozen=True, slots=True)
class SuiteModel:
    """A network of the suite.

    ``variants`` are those that ``paceline models`` lists; ``default`` is the one taken when a job names
    neither a variant nor an input. A transformer has a ``size`` in their place.
    """

    name: str
    family: Family
    variants: tuple[str, ...] = ()
    default: str | None = None
    size: TransformerSize | None = None
    smallest: int = 1  # the shortest side of an image that survives all halvings


_ALL = tuple(VARIANTS)
_ENTRIES = (
    SuiteModel("resnet18", "resnet", _ALL, "imagenet"),
    SuiteModel("resnet50", "resnet", _ALL, "imagenet"),
    SuiteModel("resnet152", "resnet", _ALL, "imagenet"),
    SuiteModel("vgg11", "vgg", _ALL, "imagenet", smallest=32),
    SuiteModel("vgg16", "vgg", _ALL, "imagenet", smallest=32),
    SuiteModel("mobilenet_v2", "mobilenet", _ALL, "imagenet"),
    *(SuiteModel(name, "gpt", size=size) for name, size in GPT_SIZES.items()),
    *(SuiteModel(name, "bert", size=size) for name, size in BERT_SIZES.items()),
    SuiteModel("mlp", "small", default="mnist"),
    SuiteModel("cnn", "small", default="mnist"),
    SuiteModel("resnet8", "small", default="mnist"),
)
SUITE: dict[str, SuiteModel] = {entry.name: entry for entry in _ENTRIES}


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One line of ``paceline models``: a network in one of its variants."""

    name: str
    variant: str | None
    family: Family


def list_models() -> list[ListedModel]:
    """Return every network in every variant; transformers and small networks have one line each.

    >>> sum(entry.variant is not None for entry in list_models())
    24
    """
    return [
        ListedModel(entry.name, variant, entry.family) for entry in _ENTRIES for variant in entry.variants or (None,)
    ]


def suite_factory(
    entry: SuiteModel, style: str | None, inputs: InputSpec, targets: TargetSpec
) -> Callable[[], nn.Module]:
    """Return the call that builds a network; ``style`` is the variant whose form it takes."""
    return partial(_build, entry, style, inputs, targets)


def _build(entry: SuiteModel, style: str | None, inputs: InputSpec, targets: TargetSpec) -> nn.Module:
    channels, classes = inputs.shape[0], targets.classes
    small_images = style in ("mnist", "cifar10")
    match entry.family:
        case "resnet":
            from paceline.model.resnet import resnet

            return resnet(entry.name, channels, classes, small_images=small_images)
        case "vgg":
            from paceline.model.vgg import vgg

            pools = 4 if style == "mnist" else 5
            return vgg(entry.name, channels, classes, small_images=small_images, pools=pools)
        case "mobilenet":
            from paceline.model.mobilenet import MobileNetV2

            return MobileNetV2(channels, classes, small_images=small_images)
        case "gpt":
            from paceline.model.gpt import GPT

            return GPT(_size(entry))
        case "bert":
            from paceline.model.bert import BERT

            return BERT(_size(entry))
        case "small":
            from paceline.model import small

            if entry.name == "mlp":
                return small.mlp(inputs.shape, classes)
            return (small.cnn if entry.name == "cnn" else small.resnet8)(channels, classes)


def _size(entry: SuiteModel) -> TransformerSize:
    assert entry.size is not None
    return entry.size
