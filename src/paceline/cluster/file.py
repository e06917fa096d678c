"""Cluster files, and the ``[cluster]`` table of a job: a file or a preset, and keys over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.artefact import load
from paceline.cluster.cluster import Cluster
from paceline.cluster.emulation import Emulation
from paceline.cluster.link import Link
from paceline.cluster.presets import list_presets, load_preset, preset_data
from paceline.cluster.section import build
from paceline.errors import FileError, PacelineError, UnknownNameError
from paceline.schema import read_toml


def read_cluster(path: str | Path) -> Cluster:
    """Return the cluster of a TOML file, or of a ``.json`` file that Paceline saved."""
    path = Path(path)
    if path.suffix == ".json":
        return load(Cluster, path)
    return build(read_toml(path), path)


def open_cluster(text: str) -> Cluster:
    """Return the cluster that a command line names: a file (``.toml``, ``.json``, or with a slash), or a preset."""
    if text.endswith((".toml", ".json")) or "/" in text:
        return read_cluster(text)
    if text in list_presets():
        return load_preset(text)
    unknown = UnknownNameError("cluster", text, list_presets(), "`paceline clusters`")
    raise PacelineError(f"{unknown}; the name of a cluster file ends in .toml")


def cluster_from(
    data: Mapping[str, Any], where: str | Path, prefix: str = "", folder: str | Path | None = None
) -> Cluster:
    """Return the cluster of a ``[cluster]`` table that stands in ``where`` under ``prefix``.

    ``file`` or ``preset`` name what to start from; every other key overrides it. A ``file`` is looked up from
    ``folder`` (the folder of ``where`` by default). A link that is given a new ``kind`` forgets the figures
    it had.
    """
    if not isinstance(data, Mapping):
        raise FileError(where, prefix, f"is {data!r}, must be a table")
    keys = dict(data)
    start = [key for key in ("file", "preset") if key in keys]
    if len(start) == 2:
        raise FileError(where, _key(prefix, "preset"), "is given beside file; keep one of the two")
    if not start:
        return build(keys, where, prefix)
    name = keys.pop(start[0])
    if not isinstance(name, str) or not name:
        raise FileError(where, _key(prefix, start[0]), f"is {name!r}, must be a name in quotes")
    if start[0] == "preset":
        base = _preset(name, keys, where, _key(prefix, "preset"))
    else:
        path = (Path(where).parent if folder is None else Path(folder)) / Path(name).expanduser()
        if not path.exists():
            raise FileError(where, _key(prefix, "file"), f"names {path}, and there is no such file")
        base, name = _file_data(path), str(path)
    return build(_over(base, keys), where, prefix) if keys else build(base, name)


def as_data(cluster: Cluster) -> dict[str, Any]:
    """Return the tables of a cluster file that describe a cluster; ``cluster_from`` reads them back."""
    data: dict[str, Any] = {
        "name": cluster.name,
        "device": cluster.device,
        "devices_per_host": cluster.devices_per_host,
        "hosts": cluster.hosts,
        "helpers": cluster.helpers,
        "link": {
            "device": {**_link_data(cluster.device_link), "spans_switches": cluster.spans_switches},
            "network": {
                **_link_data(cluster.network),
                "oversubscription": cluster.oversubscription,
                "nics": cluster.nics,
            },
        },
        "switch": [
            {"devices": list(switch.devices), "uplink": _link_data(switch.uplink), "nic": switch.nic}
            for switch in cluster.switches
        ],
        "host": {
            "memory": f"{cluster.host.memory_bytes} B",
            "sum_bandwidth": f"{cluster.host.sum_bandwidth!r} b/s",
            "source": cluster.host.source,
        },
    }
    if cluster.threads_per_device is not None:
        data["threads_per_device"] = cluster.threads_per_device
    if cluster.curves:
        data["curve"] = [
            {"collective": c.collective, "ranks": c.ranks, "bytes": list(c.bytes), "seconds": list(c.seconds)}
            for c in cluster.curves
        ]
    if cluster.emulate is not None:
        data["emulate"] = _emulation_data(cluster.emulate)
    if cluster.price is not None:
        price = cluster.price
        data["price"] = {
            "device_hour": f"{price.device_hour!r} {price.currency}",
            "helper_hour": f"{price.helper_hour!r} {price.currency}",
        }
    return data


def _emulation_data(emulation: Emulation) -> dict[str, Any]:
    return {
        "time_scale": emulation.time_scale,
        "byte_scale": emulation.byte_scale,
        "jitter": emulation.jitter,
        "straggler": [
            {"device": s.device, "slow": s.slow, "pause": f"{s.pause!r} s", "every": f"{s.every!r} s"}
            for s in emulation.stragglers
        ],
    }


def _link_data(link: Link) -> dict[str, Any]:
    # repr keeps every digit of a float, so that reading back gives the same link.
    return {
        "name": link.name,
        "bandwidth": f"{link.bandwidth!r} b/s",
        "latency": f"{link.latency!r} s",
        "efficiency": link.efficiency,
        "spread": link.spread,
        "source": link.source,
    }


def _key(prefix: str, key: str) -> str:
    return f"{prefix}.{key}" if prefix else key


def _file_data(path: Path) -> dict[str, Any]:
    """Read a file that keys are laid over; it must be right by itself, so that errors name the right file."""
    cluster = read_cluster(path)
    return as_data(cluster) if path.suffix == ".json" else read_toml(path)


def _preset(name: str, keys: Mapping[str, Any], where: str | Path, key: str) -> dict[str, Any]:
    per_host = keys.get("devices_per_host")
    try:
        # This machine's threads are shared out over the devices asked for.
        return preset_data(name, per_host if type(per_host) is int and per_host > 0 else None)
    except UnknownNameError as error:
        raise FileError(where, key, str(error)) from None


def _over(base: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Lay ``keys`` over ``base``, table by table."""
    merged = dict(base)
    for key, value in keys.items():
        old = merged.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            # New figures end what was known of the old ones; a new kind replaces them all.
            stale = _FIGURES if "kind" in value else ("source",) if value.keys() & _FIGURES else ()
            old = {name: kept for name, kept in old.items() if name not in stale}
            merged[key] = _over(old, value)
        else:
            merged[key] = value
    if keys.keys() & _SHAPE and "curve" not in keys:
        merged.pop("curve", None)  # measured on links and devices that are others now
    if "devices_per_host" in keys and "switch" not in keys and type(keys["devices_per_host"]) is int:
        merged["switch"] = _first_devices(merged.get("switch", []), keys["devices_per_host"])
    return merged


_SHAPE = {"device", "devices_per_host", "link", "switch"}
_FIGURES = ("name", "bandwidth", "latency", "efficiency", "spread", "source")


def _first_devices(switches: list[dict[str, Any]], devices: int) -> list[dict[str, Any]]:
    """Drop from the switches of the base what a smaller host no longer has."""
    kept = [{**switch, "devices": [d for d in switch["devices"] if d < devices]} for switch in switches]
    return [switch for switch in kept if switch["devices"] or switch.get("nic")]
