import pytest

from paceline.train.record import EpochRecord, Recorder, ResumeRecord, StepRecord, read_records, supersede


def step(number: int = 0, loss: float = 0.5) -> StepRecord:
    return StepRecord(number, 0, 8, 0.5, loss, 0.1, 0.01, 0.001, 0.002)


EPOCH = EpochRecord(0, 1.5, None, 0.9, None)


def test_what_is_written_is_read(tmp_path):
    with Recorder(tmp_path / "worker.jsonl") as recorder:
        recorder.write(step(0))
        recorder.write(EPOCH)
        recorder.write(step(1))
    assert list(read_records(tmp_path / "worker.jsonl")) == [step(0), EPOCH, step(1)]


def test_a_reader_sees_whole_lines_only(tmp_path):
    # Far more than any buffer holds, and faster than the recorder empties its own.
    path = tmp_path / "worker.jsonl"
    with Recorder(path) as recorder:
        for number in range(400):
            recorder.write(step(number))
            seen = path.read_bytes()
            assert not seen or seen.endswith(b"\n")
    assert len(path.read_bytes()) > 1 << 16
    assert [record.step for record in read_records(path)] == list(range(400))


def test_steps_are_seen_soon_and_the_end_of_an_epoch_at_once(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("paceline.train.record.time.monotonic", lambda: now[0])
    path = tmp_path / "worker.jsonl"
    with Recorder(path) as recorder:
        recorder.write(step(0))
        assert path.read_text() == ""
        now[0] = 0.3
        recorder.write(step(1))
        assert len(path.read_text().splitlines()) == 2
        recorder.write(step(2))
        recorder.write(EPOCH)
        assert len(path.read_text().splitlines()) == 4


def test_records_are_added_to_a_file(tmp_path):
    for number in range(2):
        with Recorder(tmp_path / "worker.jsonl") as recorder:
            recorder.write(step(number))
    assert list(read_records(tmp_path / "worker.jsonl")) == [step(0), step(1)]


def test_what_came_before_a_failure_is_kept(tmp_path):
    with pytest.raises(KeyError), Recorder(tmp_path / "worker.jsonl") as recorder:
        recorder.write(step(0))
        raise KeyError
    assert list(read_records(tmp_path / "worker.jsonl")) == [step(0)]


def test_a_line_that_was_cut_short_is_left_out(tmp_path):
    path = tmp_path / "worker.jsonl"
    with Recorder(path) as recorder:
        recorder.write(step(0))
        recorder.write(step(1))
    path.write_text(path.read_text()[:-20])
    assert list(read_records(path)) == [step(0)]


def test_no_number_that_json_lacks_is_written(tmp_path):
    with Recorder(tmp_path / "worker.jsonl") as recorder, pytest.raises(ValueError):
        recorder.write(step(loss=float("nan")))
    assert list(read_records(tmp_path / "worker.jsonl")) == []


def test_what_a_resumed_run_repeats_counts_as_it_was_repeated(tmp_path):
    path = tmp_path / "worker-0.jsonl"

    def write(steps, loss):
        with Recorder(path) as recorder:
            for number in steps:
                recorder.write(StepRecord(number, number // 3, 4, 1.0, loss, 0.1, 1.0, 0.0, 0.0))
                if number % 3 == 2:
                    recorder.write(EpochRecord(number // 3, loss, None, None, None))

    write(range(8), 1.0)
    with path.open("a") as file:
        file.write('{"event": "step", "step": 8, "epo')
    supersede(path, ResumeRecord(step=5, epoch=1))
    write(range(5, 9), 2.0)
    found = list(read_records(path))
    steps = [(record.step, record.loss) for record in found if isinstance(record, StepRecord)]
    assert steps == [(number, 1.0 if number < 5 else 2.0) for number in range(9)]
    assert [(r.epoch, r.seconds) for r in found if isinstance(r, EpochRecord)] == [(0, 1.0), (1, 2.0), (2, 2.0)]


def test_a_file_that_died_before_its_first_line_can_be_marked_too(tmp_path):
    path = tmp_path / "worker-0.jsonl"
    path.write_text('{"eve')
    supersede(path, ResumeRecord(step=0, epoch=0))
    assert list(read_records(path)) == []
    assert path.read_text().count("\n") == 1
