"""paceline profile: layer times of a model on one device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline.cli.common import JobFile, Json, Quiet, Set, at_least, open_case, writable
from paceline.cli.output import emit, headline, progress, say, table
from paceline.errors import FileError
from paceline.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from paceline.job.resolve import Case
    from paceline.workload.device import Device
    from paceline.workload.profile import Profile, Timing


def profile(
    job: JobFile = None,
    *,
    set_: Set = (),
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Save the profile to this file.")] = None,
    device: Annotated[
        str | None,
        Parameter(help="cpu or cuda: measure here. A name of `paceline devices`: model that device."),
    ] = None,
    seconds: Annotated[
        float | None, Parameter(help="How long to measure (profile.seconds of the job by default).")
    ] = None,
    batches: Annotated[
        str | None,
        Parameter(help="Other batch sizes to time, such as 1,2,4; 'ladder' for all powers of two."),
    ] = None,
    layers: Annotated[int, Parameter(help="Rows of the layer table; 0 for all.")] = 20,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Time a model layer by layer on one device, and say how long an epoch takes on it.

    Measures on this machine where the job's cluster is this machine or --device is cpu or cuda; models the cluster's
    device otherwise.
    """
    at_least("--layers", layers, 0)
    writable("--output", output)
    case = open_case(job, set_)
    found = _profile(case, device, seconds, batches, quiet or json)
    if output is not None:
        from paceline.artefact import save

        save(found, output)
    batch = case.job.spec.train.batch_per_device
    timing = found.at(batch)
    if json:
        emit(_as_json(found, timing))
        return
    _print(case, found, timing, layers)
    if output is not None:
        say(f'Saved to {output}; use it by [profile] file = "{output}".')


def _profile(case: Case, device: str | None, seconds: float | None, batches: str | None, quiet: bool) -> Profile:
    from paceline.job.resolve import batch_ladder, measured_profile, profile_of

    batch = case.job.spec.train.batch_per_device
    if seconds is not None and not 0 < seconds <= 86400:
        raise FileError("--seconds", "", f"is {seconds:g}, must be above 0 and at most 86400")
    sizes = batch_ladder(batch) if batches == "ladder" else _sizes(batches)
    if device in (None, "cpu", "cuda"):
        if device is None and not case.measurable:
            return profile_of(case)
        if device == "cuda":
            _need_cuda()
        with progress(f"Profiling {case.name}", quiet) as move:
            return measured_profile(case, move, seconds or case.job.spec.profile.seconds, sizes, device or "cpu")
    return _modelled(case, _known(device), sizes or batch_ladder(batch))


def _known(name: str) -> Device:
    from paceline.errors import UnknownNameError
    from paceline.workload.device import find_device

    try:
        return find_device(name)
    except UnknownNameError as error:
        raise FileError("--device", "", str(error)) from None


def _modelled(case: Case, device: Device, sizes: tuple[int, ...]) -> Profile:
    from dataclasses import replace

    from paceline.job.resolve import optimizer_of
    from paceline.workload.roofline import model_profile
    from paceline.workload.trace import trace

    train = case.job.spec.train
    workload = replace(trace(case.source, train.batch_per_device, train.precision), name=case.name)
    return model_profile(workload, device, optimizer_of(case.job).key, sizes)


def _sizes(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise FileError("--batches", "", f"is {text!r}, must be whole numbers such as 1,2,4, or 'ladder'")
    return tuple(int(part) for part in parts)


def _need_cuda() -> None:
    import torch

    from paceline.errors import UnavailableError

    if not torch.cuda.is_available():
        raise UnavailableError("there is no CUDA device here; see `paceline doctor`")


def _as_json(profile: Profile, timing: Timing) -> dict[str, Any]:
    from dataclasses import asdict

    workload = profile.workload.at(timing.batch)
    layers = [
        {
            **asdict(layer),
            "parameter_bytes": layer.parameter_bytes,
            "forward_seconds": ahead,
            "backward_seconds": back,
        }
        for layer, ahead, back in zip(workload.layers, timing.forward_seconds, timing.backward_seconds)
    ]
    return {
        "kind": "profile-summary",
        "workload": workload.name,
        "device": profile.device,
        "source": profile.source,
        "note": profile.note,
        "precision": profile.precision,
        "threads": profile.threads,
        "batch": timing.batch,
        "parameters": workload.parameters,
        "parameter_bytes": workload.parameter_bytes,
        "flops": workload.flops,
        "backward_flops": workload.backward_flops,
        "kept_bytes": workload.kept_bytes,
        "step_seconds": timing.step_seconds,
        "step_spread": timing.spread,
        "forward_seconds": timing.forward,
        "backward_seconds": timing.backward,
        "optimizer_seconds": timing.optimizer_seconds,
        "data_seconds": timing.data_seconds,
        "overhead_seconds": timing.overhead_seconds,
        "start_seconds": profile.start_seconds,
        "samples_per_second": timing.batch / timing.step_seconds,
        "batches": [
            {"batch": t.batch, "step_seconds": t.step_seconds, "samples_per_second": t.batch / t.step_seconds}
            for t in profile.timings
        ],
        "layers": layers,
    }


def _print(case: Case, profile: Profile, timing: Timing, rows: int) -> None:
    from paceline.job.resolve import length_of

    workload = profile.workload.at(timing.batch)
    rate = timing.batch / timing.step_seconds
    samples = length_of(case).samples
    tokens = f" ({rate * workload.tokens:,.0f} tokens/s)" if workload.tokens else ""
    headline(
        f"{workload.name} on one {profile.device}, batch {timing.batch}: {rate:,.1f} {workload.unit}/s{tokens}, "
        f"{format_seconds(timing.step_seconds)} a step (± {timing.spread:.0%}), "
        f"{format_seconds(samples / rate + profile.start_seconds)} an epoch of {samples:,}."
    )
    say(f"Source: {profile.source}; {profile.note}.")
    parts = {
        "forward": timing.forward,
        "backward": timing.backward,
        "optimizer": timing.optimizer_seconds,
        "data": timing.data_seconds,
        "loop": timing.overhead_seconds,
    }
    say("Step: " + ", ".join(f"{name} {format_seconds(value)}" for name, value in parts.items()) + ".")
    say(
        f"Model: {workload.parameters:,} parameters ({format_bytes(workload.parameter_bytes)}), "
        f"{format_count(workload.flops)}FLOP forward, {format_bytes(workload.kept_bytes)} kept for the backward.\n"
    )
    order = sorted(range(len(workload.layers)), key=lambda n: -(timing.forward_seconds[n] + timing.backward_seconds[n]))
    shown = order[:rows] if rows else range(len(order))
    table(
        ["layer~", "kind", "forward>", "backward>", "step>", "parameters>", "FLOPs>", "kept>", "output>"],
        [
            [
                workload.layers[n].name,
                workload.layers[n].kind,
                format_seconds(timing.forward_seconds[n]),
                format_seconds(timing.backward_seconds[n]),
                f"{(timing.forward_seconds[n] + timing.backward_seconds[n]) / timing.step_seconds:.1%}",
                format_count(workload.layers[n].parameters),
                format_count(workload.layers[n].flops),
                format_bytes(workload.layers[n].kept_bytes),
                format_bytes(workload.layers[n].output_bytes),
            ]
            for n in shown
        ],
    )
    if rows and len(order) > rows:
        say(f"The {rows} slowest of {len(order)} layers; all of them by --layers 0.")
    if len(profile.timings) > 1:
        say()
        table(
            ["batch>", "step>", f"{workload.unit}/s>"],
            [
                [str(t.batch), format_seconds(t.step_seconds), f"{t.batch / t.step_seconds:,.1f}"]
                for t in profile.timings
            ],
        )
