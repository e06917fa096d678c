"""Commands on a terminal of a given width."""

import os
import pty
import re
import sys
import termios


def on_a_terminal(words, columns):
    """Return what a command prints on a terminal of that width, without its colours."""
    child, terminal = pty.fork()
    if child == 0:
        termios.tcsetwinsize(0, (40, columns))
        program = "from paceline.cli.main import main; main()"
        # An environment of its own: readline, in pytest, sets COLUMNS where os.environ does not see it.
        kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        os.execve(sys.executable, [sys.executable, "-c", program, *words], kept | {"TERM": "xterm"})
    text = b""
    try:
        while piece := os.read(terminal, 65536):
            text += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.decode()).replace("\r", "")
