"""The commands: what they print, and the exit codes they give."""

import json

import pytest
from labs import flat, tree

from paceline.artefact import save
from paceline.cli.main import run
from paceline.cluster.emulate.status import find

LAB = """
name = "A lab of 2"
device = "t4"
hosts = 2
[link.network]
bandwidth = "10 Gb/s"
latency = "20 us"
[emulate]
time_scale = 10
byte_scale = 5
"""


@pytest.fixture
def lab(tmp_path, name):
    path = tmp_path / "lab.toml"
    path.write_text(LAB)
    assert run(["cluster", "up", str(path), "--name", name]) == 0
    yield name
    assert run(["cluster", "down", name]) == 0


def test_up_says_what_was_made(tmp_path, name, capsys):
    (tmp_path / "lab.toml").write_text(LAB)
    assert run(["cluster", "up", str(tmp_path / "lab.toml"), "--name", name]) == 0
    out = capsys.readouterr().out
    assert run(["cluster", "down", name]) == 0
    assert f"{name} is up: 2 hosts in 10.77." in out
    assert "A second of the file lasts 10 s on the box, a byte on the box stands for 5." in " ".join(out.split())
    assert "10.0 Gb/s     200 Mb/s" in out


def test_up_as_json_is_a_layout(tmp_path, name, capsys):
    path = save(tree(), tmp_path / "tree.json")
    assert run(["cluster", "up", str(path), "--name", name, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["kind"], shown["name"], len(shown["nodes"])) == ("layout", name, 10)
    assert run(["cluster", "down", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": [{"name": name, "namespaces": 11, "processes": 0}]}


def test_a_dry_run_prints_the_commands_and_makes_nothing(capsys):
    assert run(["cluster", "up", "taito-p100", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ip -batch - <<END\nnetns add pl-taito-p100-net\n")
    assert run(["cluster", "up", "taito-p100", "--dry-run", "--json", "--name", "x"]) == 0
    assert json.loads(capsys.readouterr().out)["network"] == "pl-x-net"


def test_status(lab, capsys):
    capsys.readouterr()
    assert run(["cluster", "status", lab]) == 0
    out = capsys.readouterr().out
    assert "host1" in out and "200 Mb/s" in out and "2 of 2 namespaces alive" in " ".join(out.split())
    assert run(["cluster", "status", "--json"]) == 0
    mine = next(each for each in json.loads(capsys.readouterr().out)["clusters"] if each["name"] == lab)
    assert mine["links"][0] | {"name": ""} == {
        "name": "",
        "kind": "nic",
        "bandwidth": 1e10,
        "box_bandwidth": 200_000_000,
        "box_bandwidth_now": 200_000_000,
        "cut": False,
    }
    assert all(node["alive"] and node["processes"] == [] for node in mine["nodes"])


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_exec_passes_exit_codes_on(lab, code):
    assert run(["cluster", "exec", "host0", "--name", lab, "--", "sh", "-c", f"exit {code}"]) == code


def test_exec_passes_signals_and_streams_on(lab, paceline):
    done = paceline("cluster", "exec", "host1", "--name", lab, "--", "sh", "-c", "cat; kill -9 $$", input="hello")
    assert (done.stdout, done.returncode) == ("hello", 137)


def test_exec_tells_the_command_where_it_is(lab, paceline):
    names = "$PACELINE_HOST $PACELINE_CLUSTER $PACELINE_ADDRESS $GLOO_SOCKET_IFNAME"
    words = f'echo {names}; ip -o -4 addr show eth0; echo "$@"'
    done = paceline("cluster", "exec", "host1", "--name", lab, "--", "sh", "-c", words, "-", "--flag", "-x")
    first, address, flags = done.stdout.splitlines()
    assert first == f"host1 {lab} {find(lab).node('host1').address} eth0"
    assert f"{find(lab).node('host1').address}/24" in address
    assert flags == "--flag -x"


def test_faults(lab, capsys):
    capsys.readouterr()
    for words, part in (
        (["cut"], "is cut off"),
        (["heal"], "has its links back"),
        (["slow", "5 Gb/s"], "slowed to 5.00 Gb/s, which is 100 Mb/s on the box"),
        (["kill"], "lost 0 processes"),
    ):
        assert run(["cluster", "fault", lab, "host1", *words]) == 0
        assert part in " ".join(capsys.readouterr().out.split())
    assert run(["cluster", "fault", lab, "host1", "slow", "5 Gb/s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["box_bandwidth"] == 100_000_000


def test_wrong_words_are_one_sentence(lab, capsys, monkeypatch):
    capsys.readouterr()
    wrong = [
        (["up", "no-such"], "there is no cluster 'no-such'"),
        (["up", "no-such.toml"], "no-such.toml: there is no such file"),
        (["up", "taito-p100", "--name", "A b"], "cannot be named 'A b'"),
        (["status", "no-such"], "there is no emulated cluster 'no-such'"),
        (["exec", "host9", "--name", lab, "--", "true"], "there is no host in cluster"),
        (["exec", "hots1", "--name", lab, "--", "true"], "did you mean 'host1'"),
        (["exec", "host0", "--name", lab], "there is no command to run inside host0"),
        (["exec", "host0", "--name", lab, "--", "no-such-command"], "there is no command 'no-such-command'"),
        (["exec", "host0", "--name", "no-such", "--", "true"], "there is no emulated cluster 'no-such'"),
        (["fault", lab, "host9", "cut"], "there is no host"),
        (["fault", lab, "host0", "slow"], "needs a rate"),
        (["fault", lab, "host0", "slow", "fast"], "rate: is 'fast', needs a number with a unit"),
        (["fault", lab, "host0", "cut", "1 Gb/s"], "takes no rate"),
        (["fault", lab, "host0", "burn"], "burn"),
        (["down", lab, "--all"], "keep one of the two"),
        (["down", "../x"], "cannot be named"),
    ]
    for words, part in wrong:
        assert run(["cluster", *words]) == 2, words
        out, err = capsys.readouterr()
        assert out == "" and part in err and err.startswith("paceline: ") and err.count("\n") == 1, (words, err)


def test_which_one_must_be_said_where_several_are_up(lab, shared, capsys):
    shared(flat(1))
    capsys.readouterr()
    for words in (["exec", "host0", "--", "true"], ["down"]):
        assert run(["cluster", *words]) == 2
        assert "several emulated clusters are up" in capsys.readouterr().err


def test_down_twice(lab, capsys):
    assert run(["cluster", "down", lab]) == 0
    assert f"{lab} is down: 3 namespaces removed." in capsys.readouterr().out
    assert run(["cluster", "down", lab]) == 0
    assert f"There is no emulated cluster {lab}; nothing to remove." in capsys.readouterr().out
