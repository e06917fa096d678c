"""What kind of work a layer is: the key under which device models keep their efficiencies."""

from __future__ import annotations

from collections.abc import Mapping

_BY_KERNEL = {
    "convolution": "conv",
    "addmm": "linear",
    "mm": "linear",
    "bmm": "linear",
    "mkldnn_rnn_layer": "linear",  # an LSTM in one kernel
    "native_batch_norm": "norm",
    "_native_batch_norm_legit": "norm",
    "native_layer_norm": "norm",
    "native_group_norm": "norm",
    "embedding": "embedding",
    "max_pool2d_with_indices": "pool",
    "avg_pool2d": "pool",
    "_adaptive_avg_pool2d": "pool",
    "mean": "pool",
    "nll_loss_forward": "loss",
    "_log_softmax": "loss",
}
KINDS = (
    "conv3x3",
    "conv1x1",
    "conv",
    "depthwise",
    "linear",
    "attention",
    "norm",
    "pool",
    "embedding",
    "elementwise",
    "loss",
)


def layer_kind(module_type: str, traffic: Mapping[str, int], groups: int, kernel_size: tuple[int, ...]) -> str:
    """Return the kind of a layer from the bytes that each of its kernels moved.

    Matrix kernels decide before all others, whatever their traffic: a linear layer followed by its activation is
    linear work. 3 x 3 convolutions stand apart because libraries compute them with fewer multiplications than their
    FLOPs (Winograd), depthwise ones because no library comes near its peak on them.

    >>> layer_kind("Conv2d", {"convolution": 100}, 1, (3, 3)), layer_kind("Block", {"add": 100}, 1, ())
    ('conv3x3', 'elementwise')
    """
    if any("scaled_dot_product" in name or "flash_attention" in name for name in traffic):
        return "attention"
    for name in ("convolution", "addmm", "mm", "bmm", "mkldnn_rnn_layer"):
        if name in traffic:
            kind = _BY_KERNEL[name]
            break
    else:
        if module_type == "loss":
            return "loss"
        heaviest = max(traffic, key=lambda name: traffic[name], default="")
        kind = _BY_KERNEL.get(heaviest, "elementwise")
    if kind != "conv":
        return kind
    if groups > 1:
        return "depthwise"
    if kernel_size in ((3, 3), (1, 1)):
        return "conv3x3" if kernel_size == (3, 3) else "conv1x1"
    return kind
