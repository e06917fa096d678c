"""The tables of job and cluster files, key by key, with values that are wrong for each."""

import copy
import json
from dataclasses import dataclass

JOB = {
    "model": {"name": "resnet50"},
    "cluster": {"preset": "taito-p100"},
    "plan": {"strategy": "allreduce"},
}
LINK = {"bandwidth": "25 Gb/s", "latency": "20 us"}
CLUSTER = {
    "name": "lab",
    "device": "p100",
    "devices_per_host": 4,
    "hosts": 2,
    "helpers": 1,
    "link": {"device": dict(LINK), "network": dict(LINK)},
    "switch": [{"devices": [0, 1], "uplink": {"kind": "pcie3"}, "nic": True}],
    "host": {"memory": "256 GB", "sum_bandwidth": "40 GB/s"},
    "price": {"device_hour": "2.48 USD", "helper_hour": "0.30 USD"},
}

TEXT, WHOLE, NUMBER, FLAG, RATE, SIZE, TIME, MONEY, LIST = range(9)
_NOT = {
    TEXT: (3, ["a"], True),
    WHOLE: ("many", 1.5, True, [4]),
    NUMBER: ("much", True, [0.5]),
    FLAG: ("yes", 1),
    RATE: (40, "40 Gb", "5 us", "fast", "-1 Gb/s", "0 Gb/s"),
    SIZE: (64, "64 Gb/s", "big", "-1 GB"),
    TIME: (5, "5 GB", "soon", "-5 us"),
    MONEY: (2.48, "2.48", "2.48 dollars", "-1 USD"),
    LIST: ("1, 2", 30, [1.5]),
}
JOB_KEYS = {
    "model.name": TEXT,
    "model.variant": TEXT,
    "model.input": TEXT,
    "model.classes": WHOLE,
    "model.loss": TEXT,
    "data.name": TEXT,
    "data.samples": WHOLE,
    "data.validation": NUMBER,
    "data.seed": WHOLE,
    "train.batch_per_device": WHOLE,
    "train.global_batch": WHOLE,
    "train.max_global_batch": WHOLE,
    "train.epochs": WHOLE,
    "train.steps": WHOLE,
    "train.precision": TEXT,
    "train.seed": WHOLE,
    "train.checkpoint_every": TEXT,
    "train.keep": WHOLE,
    "train.optimizer": TEXT,
    "train.momentum": NUMBER,
    "train.nesterov": FLAG,
    "train.weight_decay": NUMBER,
    "train.zero_init_last_bn": FLAG,
    "train.momentum_correction": FLAG,
    "train.decay_norm_and_bias": FLAG,
    "train.trust": NUMBER,
    "train.clip_norm": NUMBER,
    "train.label_smoothing": NUMBER,
    "train.lr": NUMBER,
    "train.lr_min": NUMBER,
    "train.lr_reference_batch": WHOLE,
    "train.scaling": TEXT,
    "train.warmup": TEXT,
    "train.warmup_epochs": WHOLE,
    "train.schedule": TEXT,
    "train.milestones": LIST,
    "train.gamma": NUMBER,
    "train.one_cycle_peak": NUMBER,
    "profile.file": TEXT,
    "profile.throughput": NUMBER,
    "profile.seconds": NUMBER,
    "plan.strategy": TEXT,
    "plan.devices": WHOLE,
    "plan.bucket_mb": NUMBER,
    "plan.overlap": FLAG,
    "plan.compression": TEXT,
    "plan.algorithm": TEXT,
    "plan.accumulate": WHOLE,
}
_LINK_KEYS = {"name": TEXT, "kind": TEXT, "bandwidth": RATE, "latency": TIME, "efficiency": NUMBER, "spread": NUMBER}
CLUSTER_KEYS = {
    "name": TEXT,
    "device": TEXT,
    "devices_per_host": WHOLE,
    "hosts": WHOLE,
    "helpers": WHOLE,
    "threads_per_device": WHOLE,
    **{f"link.device.{key}": kind for key, kind in _LINK_KEYS.items()},
    "link.device.spans_switches": FLAG,
    **{f"link.network.{key}": kind for key, kind in _LINK_KEYS.items()},
    "link.network.oversubscription": NUMBER,
    "link.network.nics": WHOLE,
    "host.memory": SIZE,
    "host.sum_bandwidth": RATE,
    "price.device_hour": MONEY,
    "price.helper_hour": MONEY,
}
# Where a number may be negative, or zero, nothing is wrong with it.
_MAY_BE_ZERO = {"data.validation", "data.seed", "train.seed", "train.momentum", "train.weight_decay", "train.lr_min"}
_MAY_BE_ZERO |= {"train.label_smoothing"}
_MAY_BE_ZERO |= {"helpers", "link.device.spread", "link.network.spread"}


@dataclass(frozen=True)
class Wrong:
    """A key with a value that it cannot take, and what the sentence must say besides file and key."""

    key: str
    value: object
    says: str = ""

    def __str__(self):
        return f"{self.key}={self.value}"

    def within(self, tables):
        """Return a copy of a file's tables with the key set."""
        changed = copy.deepcopy(tables)
        table = changed
        *path, last = self.key.split(".")
        for part in path:
            table = table.setdefault(part, {})
        table[last] = self.value
        return changed


def wrong_values(keys):
    """Yield each key with every kind of wrong value."""
    for key, kind in keys.items():
        for value in _NOT[kind]:
            shown = str(value).lower() if value is True and not key.startswith("plan.") else repr(value)
            yield Wrong(key, value, "is " if kind is LIST else f"is {shown}")
        if kind in (WHOLE, NUMBER):
            for value in (-1, *(() if key in _MAY_BE_ZERO else (0,))):
                yield Wrong(key, value, f"is {value}")


def misspelled(keys):
    """Yield each key with a letter too many, which must name the right one."""
    for key in keys:
        yield Wrong(key + key[-1], 1, f"did you mean '{key.rpartition('.')[2]}'?")


def toml(tables, prefix=""):
    """Return tables as TOML; JSON writes texts, numbers, truths and lists the same way."""
    plain, nested = [], []
    for key, value in tables.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict):
            nested.append(f"[{name}]\n{toml(value, name)}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            nested += [f"[[{name}]]\n{toml(item, name)}" for item in value]
        else:
            plain.append(f"{key} = {json.dumps(value)}\n")
    return "".join(plain + nested)
