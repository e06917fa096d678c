"""The entry point: the table of commands, and what a failure looks like.

Commands are loaded when they are called, so that ``paceline --help`` starts at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from cyclopts import App, CycloptsError, Group

from paceline import __version__
from paceline.errors import FileError, PacelineError

FAILED = 2  # exit code of every failure that is the user's to mend
_INTERRUPTED = 130

_START = Group("Start", sort_key=1)
_ASK = Group("Ask", sort_key=2)
_RUN = Group("Run and compare", sort_key=3)
_LOOK = Group("Look up", sort_key=4)

# name, where it lives, group, one line
_COMMANDS = (
    ("doctor", "doctor:doctor", _START, "Say what works on this machine, and how to close each gap."),
    ("init", "init:init", _START, "Write a commented job, cluster and model file to start from."),
    ("profile", "profile:profile", _ASK, "Time a model layer by layer on one device, or model it."),
    ("predict", "predict:predict", _ASK, "Predict time, memory and cost of one plan, with the reasons."),
    (
        "recommend",
        "recommend:recommend",
        _ASK,
        "Rank every plan that fits, and say what would change the answer.",
    ),
    (
        "schedule",
        "schedule:schedule",
        _ASK,
        "Draw the learning rate of a run before it runs, and warn of large batches.",
    ),
    ("converge", "converge:converge", _ASK, "Simulate many workers: what a strategy does to accuracy."),
    ("launch", "launch:launch", _RUN, "Train by a plan, and compare predicted with measured."),
    ("bench", "bench:APP", _RUN, "Run benchmark suites; compare all runs with their predictions."),
    ("data", "data:APP", _RUN, "List, fetch and write data sets."),
    ("models", "lists:models", _LOOK, "List the models that have a name."),
    ("strategies", "lists:strategies", _LOOK, "List the strategies and their knobs."),
    ("devices", "lists:devices", _LOOK, "List the devices that have a model."),
    ("clusters", "lists:clusters", _LOOK, "List the cluster presets."),
    ("cluster", "cluster:APP", _LOOK, "Show a cluster; emulate one on this machine; measure its links."),
)

APP = App(
    name="paceline",
    version=__version__,
    help="Know how to spread a PyTorch training job over a cluster before you pay for it, run it that way, and see "
    "how right you were.\n\nEvery command takes --json (one object on standard output) and --debug (tracebacks).",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
for _name, _place, _group, _help in _COMMANDS:
    APP.command(f"paceline.cli.{_place}", name=_name, group=_group, sort_key=len(APP._commands), help=_help)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; a user's mistake is one sentence on standard error."""
    end = arguments.index("--") if "--" in arguments else len(arguments)  # what follows belongs to another program
    debug = "--debug" in arguments[:end]
    words = [word for word in arguments[:end] if word != "--debug"] + list(arguments[end:])
    try:
        result = APP(words, exit_on_error=False, print_error=False, result_action="return_value")
        return result if isinstance(result, int) else 0
    except CycloptsError as error:
        if debug:
            raise
        from paceline.cli.mistake import mistake

        return _fail(mistake(error, APP, words))
    except PacelineError as error:
        if debug:
            raise
        return _fail(_with_blame(error, words))
    except KeyboardInterrupt:
        print("paceline: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _with_blame(error: PacelineError, words: Sequence[str]) -> str:
    """Return the sentence of a failure; a key that an override has set is the override's fault, not the file's."""
    if isinstance(error, FileError) and any(f"{error.key}.".startswith(f"{key}.") for key in _overridden(words)):
        return ": ".join(part for part in ("--set", error.key, error.what) if part)
    return str(error)


def _overridden(words: Sequence[str]) -> Iterator[str]:
    for word, following in zip(words, [*words[1:], ""]):
        flag, equals, inline = word.partition("=")
        if flag in ("--set", "-s"):
            yield (inline if equals else following).partition("=")[0].strip()


def _fail(sentence: str) -> int:
    print(f"paceline: {' '.join(sentence.split())}", file=sys.stderr)
    return FAILED
