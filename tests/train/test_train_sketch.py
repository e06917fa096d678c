from paceline.data.bound import batch_bound
from paceline.train.schedule import schedule_for
from paceline.train.sketch import sketch, warnings
from paceline.train.spec import TrainSpec


def test_one_cycle_is_drawn_as_a_roof_and_a_short_run_as_its_beginning():
    made = schedule_for(TrainSpec(lr=0.01, epochs=10, schedule="one-cycle"), 32, 1, 10)
    assert sketch(made, width=10, height=2) == (
        "    0.01 ┤  ▅▇▅▂\n         │▃██████▆▃▁\n       0 └──────────\n          0 epoch 10\n"
    )
    assert sketch(made, width=10, height=2, last=30).splitlines()[0] == "0.009667 ┤     ▁▂▄▆▇"


def test_the_bound_is_of_the_set_that_it_was_found_on():
    assert batch_bound(1_281_167, 1000).samples == 8192
    assert batch_bound(1_280_000, 1000) is not None  # the suite's synthetic one
    assert batch_bound(1_281_167, 21841) is None and batch_bound(60_000, 1000) is None


def test_warnings_begin_above_the_bound_and_the_jobs_own_comes_first():
    bound = batch_bound(1_281_167, 1000)
    assert warnings(8192, bound) == [] == warnings(10**6, None)
    assert "above 8,192, up to which ILSVRC 2012" in warnings(8193, bound)[0]
    assert warnings(16384, bound, most=16384) == []
    assert "train.max_global_batch = 64" in warnings(65, None, most=64)[0]
