"""Tables and paragraphs: within their width, and with nothing lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cli.layout import lay_out, wrapped
from terminal import on_a_terminal

COLUMNS = ["layer~", "kind", "forward>", "backward>"]
ROWS = [["features.0.conv", "conv3x3", "9.80 ms", "4.50 ms"], ["fc", "linear", "57.5 us", "1.16 ms"]]


def test_a_table_as_it_is():
    assert lay_out(COLUMNS, ROWS, 80) == [
        [
            "layer             kind      forward   backward",
            "──────────────────────────────────────────────",
            "features.0.conv   conv3x3   9.80 ms    4.50 ms",
            "fc                linear    57.5 us    1.16 ms",
        ]
    ]


def test_gaps_close_first():
    ((head, *_),) = lay_out(COLUMNS, ROWS, 44)
    assert head == "layer            kind     forward  backward"


def test_blocks_at_last():
    assert lay_out(COLUMNS, ROWS, 36) == [
        [
            "layer            kind     forward",
            "─────────────────────────────────",
            "features.0.conv  conv3x3  9.80 ms",
            "fc               linear   57.5 us",
        ],
        [
            "layer            backward",
            "─────────────────────────",
            "features.0.conv   4.50 ms",
            "fc                1.16 ms",
        ],
    ]


def test_a_sentence_wraps_in_its_column():
    assert lay_out(["name", "what~", "here"], [["digits", "one two three four five", "yes"]], 28) == [
        [
            "name    what            here",
            "────────────────────────────",
            "digits  one two three   yes",
            "        four five",
        ]
    ]


def test_no_rows():
    assert lay_out(["a", "b~"], [], 10) == [["a   b", "─────"]]


CELL = st.text("abc 0123456789.-", max_size=20).map(lambda text: " ".join(text.split()))


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=1, max_size=4)),
       st.integers(20, 100))  # fmt: skip
def test_nothing_is_lost(rows, width):
    columns = [f"c{n}{'~' if n % 2 else '>'}" for n in range(len(rows[0]))]
    blocks = lay_out(columns, rows, width)
    text = re.sub(r"\s", "", "".join(line for block in blocks for line in block[2:]))
    for row in rows:
        assert all(sorted(set(cell) - {" "}) == sorted(set(cell) & set(text)) for cell in row)
        for cell in row[::2]:  # what does not wrap stands whole on one line
            assert any(cell in line for block in blocks for line in block)
    if all(len(cell) <= 8 for row in rows for cell in row):
        assert all(len(line) <= width for block in blocks for line in block)


def test_a_paragraph():
    assert wrapped("  [X] one two three four", 14, hang=6) == "  [X] one two\n      three\n      four"
    assert wrapped("see /a/very/long/path/that/stays/whole", 12) == "see\n/a/very/long/path/that/stays/whole"


MODEL = ["-s", "model.name=mobilenet_v2", "-s", "model.variant=cifar10", "-s", "data.samples=4096"]
MODEL += ["-s", "cluster.preset=taito-p100", "-s", "cluster.price.device_hour=2.48 USD"]
COMMANDS = [["clusters"], ["data", "list"], *([name, *MODEL, "-q"] for name in ("profile", "predict", "recommend"))]


def numbers(text):
    # How long the search itself took is another number each time.
    return set(re.findall(r"\d[\d.,]*\d|\d", re.sub(r"\d+ plans in .*", "", text)))


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_no_number_is_lost_on_a_narrow_terminal(said, words):
    if MODEL[0] in words:  # a saved profile spares the terminal's process torch
        said("profile", *MODEL, "-o", "p.json")
        words = [*words, "-s", "profile.file=p.json"]
    narrow, wide = on_a_terminal(words, 60), said(*words)
    assert max(map(len, wide.splitlines())) <= 100
    longest = max(narrow.splitlines(), key=len)
    assert len(longest) <= 60, longest
    assert numbers(wide) <= numbers(narrow)
    assert "\x1b" not in wide and "…" not in narrow
