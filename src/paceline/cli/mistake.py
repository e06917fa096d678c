"""What a wrong command line gets to read: one sentence, and the help that would have told."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import App, CycloptsError, UnknownCommandError, UnusedCliTokensError
from cyclopts.exceptions import UnknownOptionError

from paceline.errors import suggestion


def mistake(error: CycloptsError, app: App, words: Sequence[str]) -> str:
    """Return what is wrong with the words of a command line, without the full stops of the parser."""
    chain = _commands(app, words)
    return f"{_what(error, app, chain)}; see `{' '.join(['paceline', *chain, '--help'])}`"


def _what(error: CycloptsError, app: App, chain: Sequence[str]) -> str:
    tokens = list(getattr(error, "unused_tokens", None) or [])
    if isinstance(error, UnknownCommandError) and tokens and not tokens[0].startswith("-"):
        known = [name for name in _inner(app, chain) if not name.startswith("-")]
        return f"there is no command {' '.join([*chain, tokens[0]])!r}{suggestion(tokens[0], known)}"
    if isinstance(error, UnusedCliTokensError) and tokens:
        return f"{' '.join(tokens)!r} is more than the command takes"
    if isinstance(error, UnknownCommandError) and tokens:
        return f"there is no option {tokens[0]}"
    text = " ".join(str(error).split()).rstrip(".")
    text = text.removeprefix(f'Command "{" ".join(chain)}" parameter ').removeprefix("Parameter ")
    text = text.replace(". Did you mean ", "; did you mean ").replace(". Choose from: ", "; choose from ")
    if isinstance(error, UnknownOptionError):
        text = text.replace("Unknown option: ", "there is no option ", 1)
    return f"{text[:1].lower()}{text[1:]}" if text else type(error).__name__


def _commands(app: App, words: Sequence[str]) -> list[str]:
    """Return the commands that the words begin with."""
    chain: list[str] = []
    for word in words:
        if word.startswith("-") or word not in _inner(app, chain):
            break
        chain.append(word)
    return chain


def _inner(app: App, chain: Sequence[str]) -> list[str]:
    for word in chain:
        app = app[word]
    return list(app)
