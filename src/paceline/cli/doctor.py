"""paceline doctor: what works on this machine."""

from __future__ import annotations

from paceline.cli.common import Json
from paceline.cli.output import emit, headline, say


def doctor(*, json: Json = False) -> int:
    """Say what works on this machine, and for each gap the command that closes it.

    The exit code is 0 if everything that Paceline cannot do without is there.
    """
    from dataclasses import asdict

    from paceline.cli.examine import examine

    checks = examine()
    missing = [check for check in checks if check.needed and not check.works]
    if json:
        emit({"checks": [asdict(check) for check in checks], "works": not missing})
        return 1 if missing else 0
    headline(
        "Paceline works here."
        if not missing
        else f"Paceline cannot work here yet: {len(missing)} needed part is missing."
    )
    for check in checks:
        say(f"  [{'X' if check.works else ' '}] {check.name}: {check.found}", hang=6)
        if not check.works and check.mend:
            say(f"      -> {check.mend}", hang=9)
    return 1 if missing else 0
