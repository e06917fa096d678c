import pytest

RESNET = [
    *("schedule", "-s", "model.name=resnet50", "-s", "cluster.preset=taito-p100", "-s", "plan.strategy=allreduce"),
    *("-s", "train.epochs=90", "-s", "train.lr_reference_batch=256", "-s", "train.scaling=linear"),
    *("-s", "train.schedule=step", "-s", "train.milestones=[30,60,80]", "-s", "train.warmup=stepping"),
]


def test_the_thesis_schedule_of_32_devices(answer):
    found = answer(*RESNET)
    assert (found["global_batch"], found["epochs"], found["warnings"]) == (1024, 90, [])
    assert (found["scaled_lr"], found["base_lr"]) == pytest.approx((0.4, 0.0125))
    firsts = [rate["first"] for rate in found["rates"]]
    assert firsts[:6] == pytest.approx([0.4 * k / 6 for k in range(1, 7)])
    assert [firsts[e] for e in (29, 30, 60, 80)] == pytest.approx([0.4, 0.04, 0.004, 0.0004])
    assert found["steps"] == 90 * found["epoch_steps"] == 90 * 1250


def test_it_is_drawn_and_a_batch_beyond_the_bound_is_warned_of(said, capsys):
    text = said(*RESNET, "-s", "train.batch_per_device=512")
    assert text.startswith("Learning rate 6.4 for a global batch of 16,384")
    assert "█" in text and "80-89" in text and max(map(len, text.splitlines())) <= 100


def test_the_warning_is_in_the_object_too(answer):
    found = answer(*RESNET, "-s", "train.batch_per_device=512")
    assert len(found["warnings"]) == 1 and "8,192" in found["warnings"][0]


def test_a_job_for_this_machine_is_answered_without_measuring(answer):
    found = answer("schedule", "-s", "model.name=cnn", "-s", "plan.strategy=single", "-s", "train.epochs=2")
    assert found["rates"] == [{"epoch": epoch, "first": 0.1, "last": 0.1} for epoch in range(2)]
