"""What a machine lacks is one sentence with what to do."""

import os
import subprocess
import sys

import pytest

from paceline.cluster.emulate import ready
from paceline.cluster.emulate.box import Box, explain
from paceline.cluster.emulate.render import Batch
from paceline.errors import PacelineError, UnavailableError


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(UnavailableError, match=f"needs Linux .* this is {platform}"):
        ready.need_emulation()


@pytest.mark.parametrize("missing", ["ip", "tc"])
def test_without_iproute2(monkeypatch, missing):
    monkeypatch.setattr(ready.shutil, "which", lambda program, path: None if program == missing else f"/sbin/{program}")
    with pytest.raises(UnavailableError, match=f"needs the command {missing}, .* apt-get install iproute2"):
        ready.need_emulation()


@pytest.mark.parametrize(("code", "what"), [(0, "unshare -Urnm sh -c"), (1, "refuses namespaces to users; take sudo")])
def test_without_root(monkeypatch, code, what):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(ready.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess([], code))
    with pytest.raises(UnavailableError, match="needs root") as error:
        ready.need_root()
    assert what in str(error.value)


def test_without_unshare(monkeypatch):
    def none(*words, **options):
        raise FileNotFoundError

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(ready.subprocess, "run", none)
    with pytest.raises(UnavailableError, match="take sudo"):
        ready.need_root()


def test_root_of_a_container():
    assert ready.missing_capabilities("CapEff:\t00000000a80425fb\n") == ("CAP_SYS_ADMIN", "CAP_NET_ADMIN")
    assert ready.missing_capabilities("CapEff:\t000001ffffffffff\n") == ()
    assert ready.missing_capabilities("") == ("CAP_SYS_ADMIN", "CAP_NET_ADMIN")


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        ("Error: Specified qdisc kind is unknown.\nCommand failed -:1", UnavailableError, "lacks the tbf shaper"),
        ('Unknown qdisc "tbf", hence option "rate" is unparsable', UnavailableError, "modprobe sch_tbf"),
        ("Error: Unknown device type.\nCommand failed -:3", UnavailableError, "modprobe veth bridge"),
        ("RTNETLINK answers: Operation not permitted", UnavailableError, "run it as root"),
        ("RTNETLINK answers: File exists\nCommand failed -:2", PacelineError, "File exists Command failed -:2"),
        ("", PacelineError, "without a word"),
    ],
)
def test_what_the_kernel_says_is_explained(said, kind, sentence):
    error = explain("ip -batch -", said)
    assert type(error) is kind
    assert sentence in str(error)
    assert "\n" not in str(error)


def test_a_batch_that_fails_says_which_line(emulation):
    with pytest.raises(PacelineError, match=r"Cannot find device .*failed -:1"):
        Box().run([Batch("ip", "", ("link set no-such-link up",))])


def test_reading_what_is_gone_is_nothing(emulation):
    assert Box().read("ip", "-n", "pl-no-such-net", "-json", "link", "show") == []
