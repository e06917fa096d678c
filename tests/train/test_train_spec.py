import pytest

from paceline.errors import FileError
from paceline.schema import check
from paceline.train.spec import TrainSpec


def spec(**keys) -> TrainSpec:
    return check(TrainSpec, keys, "job.toml", "train")


def test_everything_has_a_default():
    default = spec()
    assert (default.batch_per_device, default.epochs, default.lr, default.optimizer) == (32, 1, 0.1, "sgd")
    assert (default.scaling, default.warmup, default.schedule, default.milestones) == (
        "none",
        "none",
        "constant",
        (),
    )


def test_the_job_of_the_guide_is_read():
    job = spec(
        batch_per_device=128,
        epochs=90,
        precision="fp32",
        optimizer="sgd",
        momentum=0.9,
        weight_decay=1e-4,
        lr=0.1,
        lr_reference_batch=256,
        scaling="linear",
        warmup="gradual",
        warmup_epochs=5,
        schedule="step",
        milestones=[30, 60, 80],
    )
    assert job.milestones == (30, 60, 80)
    assert hash(job) == hash(job.model_copy())


@pytest.mark.parametrize("key", ["momentum", "weight_decay", "lr_min"])
def test_whole_numbers_stand_for_floats(key):
    value = getattr(spec(**{key: 0}), key)
    assert (value, type(value)) == (0.0, float)
    assert spec(lr=1).lr == 1.0
    assert spec(gamma=1).gamma == 1.0


@pytest.mark.parametrize(
    ("keys", "key", "what"),
    [
        ({"batch_per_device": 0}, "batch_per_device", "at least 1"),
        ({"batch_per_device": 32.0}, "batch_per_device", "must be a whole number"),
        ({"batch": 3}, "batch", "is not a known key"),
        ({"epochs": "3"}, "epochs", "must be a whole number"),
        ({"steps": 0}, "steps", "at least 1"),
        ({"precision": "fp8"}, "precision", "must be 'fp32'"),
        ({"optimizer": "adagrad"}, "optimizer", "must be 'sgd'"),
        ({"seed": -1}, "seed", "at least 0"),
        ({"momentum": 1}, "momentum", "below 1"),
        ({"momentum": "0.9"}, "momentum", "must be a number"),
        ({"momentum": True}, "momentum", "must be a number"),
        ({"lr": 0}, "lr", "above 0"),
        ({"lr": float("nan")}, "lr", "finite number"),
        ({"weight_decay": -1e-4}, "weight_decay", "at least 0"),
        ({"nesterov": 1}, "nesterov", "must be true or false"),
        ({"one_cycle_peak": 1}, "one_cycle_peak", "below 1"),
        ({"gamma": 1.5}, "gamma", "at most 1"),
        ({"milestones": 30}, "milestones", "must be a list in square brackets"),
        ({"milestones": [30.5]}, "milestones.0", "must be a whole number"),
        ({"milestones": [0]}, "milestones.0", "at least 1"),
        # Contradictions.
        ({"milestones": [60, 30]}, "milestones", "is [60, 30], must increase"),
        ({"milestones": [30, 30]}, "milestones", "is [30, 30], must increase"),
        ({"schedule": "step"}, "milestones", "is missing, and schedule = 'step' needs"),
        ({"warmup": "gradual", "epochs": 3}, "warmup_epochs", "is 5, longer than epochs = 3"),
        ({"warmup": "stepping", "warmup_epochs": 2}, "warmup_epochs", "is 2, longer than epochs = 1"),
        ({"warmup": "gradual", "schedule": "one-cycle", "epochs": 9}, "warmup", "warms up by itself"),
        ({"optimizer": "adam", "momentum": 0.9}, "momentum", "is 0.9, and adam has none"),
        ({"optimizer": "adamw", "momentum": 0.5}, "momentum", "is 0.5, and adamw has none"),
        ({"nesterov": True}, "nesterov", "is true, and momentum is 0"),
        ({"scaling": "linear"}, "lr_reference_batch", "is missing, and scaling = 'linear' needs it"),
        ({"scaling": "sqrt"}, "lr_reference_batch", "is missing, and scaling = 'sqrt' needs it"),
        ({"lr_min": 0.2}, "lr_min", "is 0.2, above lr = 0.1"),
        ({"global_batch": 64, "max_global_batch": 32}, "global_batch", "is 64, above max_global_batch = 32"),
    ],
)
def test_a_wrong_key_is_named(keys, key, what):
    with pytest.raises(FileError) as caught:
        spec(**keys)
    assert (caught.value.where, caught.value.key) == ("job.toml", f"train.{key}")
    assert what in caught.value.what


def test_the_key_is_named_inside_a_larger_file_too():
    from paceline.schema import Section

    class Job(Section):
        train: TrainSpec

    with pytest.raises(FileError, match=r"^job.toml: train.milestones: is \[2, 1\], must increase$"):
        check(Job, {"train": {"milestones": [2, 1]}}, "job.toml")


def test_keys_of_a_rule_not_taken_do_no_harm():
    # So that `--set train.schedule=constant` or `train.warmup=none` works on any job.
    assert spec(milestones=[1, 2], warmup_epochs=5, lr_reference_batch=256).schedule == "constant"
