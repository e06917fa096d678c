"""Between the batch sizes that were timed, and beyond them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import profile, timing, workload
from paceline.artefact import from_dict, to_dict
from paceline.workload.profile import Profile, Timing


def parts(of: Timing) -> list[float]:
    return [*of.forward_seconds, *of.backward_seconds, of.optimizer_seconds, of.data_seconds, of.overhead_seconds]


def made(batch: int, values: list[float]) -> Timing:
    return timing(
        values[:2], values[2:4], batch=batch, optimizer=values[4], data=values[5], overhead=values[6], jitter=0.01
    )


SMALL = workload(((4,), (4,)))


@st.composite
def profiles(draw, monotone: bool = True, least: int = 1) -> Profile:
    """Profiles at up to five batch sizes, none of whose times falls with the batch if they are monotone."""
    batches = sorted(draw(st.sets(st.integers(1, 256), min_size=least, max_size=5)))
    columns = [draw(st.lists(st.floats(0, 10), min_size=len(batches), max_size=len(batches))) for _ in range(7)]
    if monotone:
        columns = [sorted(column) for column in columns]
    return profile(SMALL, *(made(batch, list(values)) for batch, values in zip(batches, zip(*columns))))


def test_a_straight_line_by_hand():
    found = profile(
        SMALL,
        timing([0.1, 0.2], [0.2, 0.4], batch=8, optimizer=0.05, data=0.01, overhead=0.02, spread=0.02, jitter=0.01),
        timing([0.3, 0.2], [0.6, 0.8], batch=16, optimizer=0.05, data=0.03, overhead=0.02, spread=0.05, jitter=0.03),
    )
    half, above, below = found.at(12), found.at(24), found.at(4)
    assert half.forward_seconds == pytest.approx((0.2, 0.2))
    assert half.backward_seconds == pytest.approx((0.4, 0.6))
    assert (half.optimizer_seconds, half.data_seconds) == pytest.approx((0.05, 0.02))
    assert (half.spread, half.jitter) == (0.05, 0.03)
    assert above.forward_seconds == pytest.approx((0.5, 0.2))
    # 0.1 - 0.1 = 0 is too little for half the batch; proportional is 0.05.
    assert below.forward_seconds == pytest.approx((0.05, 0.2))
    assert half.step_seconds == pytest.approx(0.2 + 0.2 + 0.4 + 0.6 + 0.05 + 0.02 + 0.02)


def test_one_timing_is_taken_as_proportional_in_what_the_samples_cost():
    found = profile(SMALL, made(8, [1, 2, 3, 4, 5, 6, 7])).at(16)
    assert parts(found) == [2, 4, 6, 8, 5, 12, 7]


def test_a_line_that_falls_stays_at_the_nearer_end():
    noise = profile(SMALL, made(8, [2.0] * 7), made(16, [1.0] * 7))
    assert parts(noise.at(32)) == [1.0] * 7
    assert parts(noise.at(4)) == [2.0] * 7
    assert parts(noise.at(12)) == pytest.approx([1.5] * 7)


@given(profiles(monotone=False), st.integers(1, 512))
def test_times_are_exact_where_known_and_never_negative(found, batch):
    for known in found.timings:
        assert found.at(known.batch) == known
        assert found.exact(known.batch)
    between = found.at(batch)
    assert between.batch == batch
    assert all(value >= 0 for value in parts(between))


@given(profiles(least=2), st.integers(1, 512), st.integers(1, 512))
def test_a_larger_batch_never_takes_less(found, one, other):
    small, large = (found.at(batch) for batch in sorted((one, other)))
    assert all(a <= b * (1 + 1e-9) + 1e-12 for a, b in zip(parts(small), parts(large)))


@given(profiles(least=2), st.integers(1, 256))
def test_between_two_sizes_times_lie_between_theirs(found, batch):
    sizes = found.batches()
    if not sizes[0] < batch < sizes[-1]:
        return
    low, high = max(s for s in sizes if s <= batch), min(s for s in sizes if s >= batch)
    for a, value, b in zip(parts(found.at(low)), parts(found.at(batch)), parts(found.at(high))):
        assert a * (1 - 1e-9) - 1e-12 <= value <= b * (1 + 1e-9) + 1e-12


@given(profiles(), st.floats(0.1, 10))
def test_a_slower_device_is_slower_at_everything(found, factor):
    for known in found.timings:
        slower = known.scaled(factor)
        assert parts(slower) == pytest.approx([value * factor for value in parts(known)])
        assert slower.step_seconds == pytest.approx(known.step_seconds * factor)
        assert (slower.batch, slower.spread, slower.jitter) == (known.batch, known.spread, known.jitter)


@given(profiles(monotone=False))
def test_it_keeps_its_values_in_a_file(found):
    assert from_dict(Profile, to_dict(found)) == found
