"""paceline models | strategies | devices | clusters: what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from paceline.cli.common import Json
from paceline.cli.output import emit, say, table
from paceline.units import format_bandwidth, format_bytes, format_count

if TYPE_CHECKING:
    from paceline.strategy.contract import Strategy


def models(
    *,
    flops: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Trace each model for its FLOPs too (some seconds).")
    ] = False,
    json: Json = False,
) -> None:
    """List the models that have a name, with exact parameter counts.

    FLOPs are those of one sample; a multiply-add counts as two.
    """
    from dataclasses import asdict

    from paceline.workload.catalogue import catalogue

    entries = list(catalogue(flops))
    if json:
        emit({"models": [asdict(entry) for entry in entries]})
        return
    columns = [
        "name",
        "variant",
        "input",
        "classes>",
        "parameters>",
        *(["forward>", "backward>"] if flops else []),
    ]
    rows = [
        [e.name, e.variant or "", e.input, f"{e.classes:,}", f"{e.parameters:,}"]
        + [f"{format_count(x)}FLOP" for x in (e.flops, e.backward_flops) if x is not None]
        for e in entries
    ]
    table(columns, rows)
    say('A model of your own: [model] name = "file.py:factory" and input = "3x224x224".')


def strategies(*, json: Json = False) -> None:
    """List the strategies and their knobs."""
    from paceline.strategy.registry import find_strategy, strategy_names

    found = [find_strategy(name) for name in strategy_names()]
    if json:
        emit(
            {
                "strategies": [
                    {"name": s.name, "summary": s.summary, "runnable": s.runnable, "knobs": dict(s.knobs)}
                    for s in found
                ]
            }
        )
        return
    table(
        ["name", "what runs~", "knobs and their defaults~"],
        [[s.name, _summary(s), ", ".join(f"{k} = {_toml(v)}" for k, v in s.knobs.items()) or "none"] for s in found],
    )


def _summary(strategy: Strategy) -> str:
    return strategy.summary if strategy.runnable else f"{strategy.summary}; predicted only, no runner yet"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else f"{value:g}"


def devices(*, json: Json = False) -> None:
    """List the devices that a plan can be made for without a measurement."""
    from dataclasses import asdict

    from paceline.workload.device import DEVICES

    if json:
        rows = [{key: value for key, value in asdict(d).items() if key != "efficiency"} for d in DEVICES.values()]
        emit({"devices": rows})
        return
    table(
        ["name", "device~", "memory>", "GB/s>", "fp32 TFLOP/s>", "fp16>", "bf16>"],
        [
            [
                d.name,
                d.title,
                format_bytes(d.memory_bytes) if d.memory_bytes else "the host's",
                f"{d.memory_bandwidth / 8e9:,.0f}",
                *(f"{peak / 1e12:,.3g}" for peak in (d.fp32, d.fp16, d.bf16)),
            ]
            for d in DEVICES.values()
        ],
    )


def clusters(*, json: Json = False) -> None:
    """List the cluster presets."""
    from paceline.artefact import to_dict
    from paceline.cluster.presets import list_presets, load_preset

    found = [load_preset(name) for name in list_presets()]
    if json:
        emit({"clusters": [to_dict(cluster) for cluster in found]})
        return
    table(
        ["preset", "hosts>", "devices", "helpers>", "inside a host", "between hosts"],
        [
            [
                c.name,
                str(c.hosts),
                f"{c.devices_per_host} x {c.device}",
                str(c.helpers),
                c.device_link.name if c.devices_per_host > 1 else "",
                f"{c.nics if c.nics > 1 else ''}{' x ' if c.nics > 1 else ''}{format_bandwidth(c.network.bandwidth)}"
                if c.hosts > 1
                else "",
            ]
            for c in found
        ],
    )
    say("`paceline cluster show NAME` draws one; a file of your own: `paceline init`.")
