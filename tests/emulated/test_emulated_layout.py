"""Names, addresses and rates: golden texts, and what must hold of any cluster."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labs import flat, tree

from paceline.artefact import from_dict, to_dict
from paceline.cluster.cluster import Cluster, Switch
from paceline.cluster.emulate.arrange import CORE, layout_of
from paceline.cluster.emulate.layout import Layout, owner_of, safe_name
from paceline.cluster.emulate.render import making, removing, script
from paceline.cluster.emulate.scale import HIGHEST, LOWEST, TOTAL
from paceline.cluster.emulation import Emulation
from paceline.cluster.link import Link
from paceline.cluster.presets import list_presets, load_preset
from paceline.errors import PacelineError, UnknownNameError

GOLDEN = Path(__file__).parent / "golden"
CASES = {
    "two-hosts": lambda: flat(2),
    "eight-hosts-and-a-helper": lambda: flat(8, helpers=1, link={"network": {"kind": "fdr-infiniband", "nics": 2}}),
    "two-switches-of-four": lambda: tree(hosts=1, helpers=0),
    "spanning-and-oversubscribed": lambda: tree(helpers=0, per_switch=1, spans=True, oversubscription=2),
}


@pytest.mark.parametrize("name", CASES)
def test_golden_texts(name):
    text = script(making(layout_of(CASES[name](), "lab", 7)))
    path = GOLDEN / f"{name}.sh"
    if os.environ.get("PACELINE_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_removing_is_a_text_too():
    assert script([removing(["pl-lab-net", "pl-lab-host0"])]) == (
        "ip -batch - <<END\nnetns del pl-lab-net\nnetns del pl-lab-host0\nEND\n"
    )


links = st.floats(1e6, 1e13).map(lambda bandwidth: Link("any", bandwidth, 1e-6))
scales = st.one_of(st.just("auto"), st.floats(1, 1e4))


@st.composite
def clusters(draw):
    per_host = draw(st.integers(1, 6))
    cut = draw(st.integers(0, per_host))
    switches = [Switch(tuple(range(cut)), draw(links), True), Switch(tuple(range(cut, per_host)), draw(links))]
    return Cluster(
        name="any",
        device="t4",
        devices_per_host=per_host,
        hosts=draw(st.integers(1, 8)),
        helpers=draw(st.integers(0, 3)),
        device_link=draw(links),
        network=draw(links),
        host=load_preset("dgx-a100").host,
        oversubscription=draw(st.sampled_from([1.0, 2.0, 3.5])),
        nics=draw(st.integers(1, 8)),
        switches=tuple(switches[: draw(st.integers(0, 2))]),
        spans_switches=draw(st.booleans()),
        emulate=draw(st.one_of(st.none(), st.builds(Emulation, scales, scales))),
    )


@settings(max_examples=80, deadline=None)
@given(clusters(), st.integers(0, 255))
def test_any_cluster_has_a_sound_layout(cluster, slot):
    layout = layout_of(cluster, "a-name-of-24-characters0", slot)
    ends = [(end.namespace, end.interface) for edge in layout.edges for end in (edge.inner, edge.outer)]
    assert len(set(ends)) == len(ends)
    assert len(set(layout.namespaces)) == len(layout.namespaces)
    addresses = [node.address for node in layout.nodes]
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith(f"10.77.{slot}.") and int(address.split(".")[3]) <= 254 for address in addresses)
    for namespace in layout.namespaces:
        assert owner_of(namespace) == layout.name
    for _, interface in ends:
        assert len(interface) <= 15
        assert interface in ("eth0", "eth1") or interface.startswith("pl-")
    assert all(bridge.startswith("pl-") and len(bridge) <= 15 for bridge in layout.bridges)
    assert layout.time_scale >= 1 and layout.byte_scale >= 1
    assert reachable(layout) == {node.namespace for node in layout.nodes}
    assert from_dict(Layout, to_dict(layout)) == layout


def reachable(layout):
    """Namespaces that hang together by eth0, from the core on; every bridge must be met once, so there is no loop."""
    met, nodes, edges = {CORE}, set(), [edge for edge in layout.edges if edge.kind != "fabric"]
    used = True
    while used:
        used = [edge for edge in edges if edge.outer.bridge in met or edge.inner.bridge in met]
        for edge in used:
            edges.remove(edge)
            if not edge.inner.bridge:
                assert edge.inner.namespace not in nodes
                nodes.add(edge.inner.namespace)
            else:
                assert not (edge.outer.bridge in met and edge.inner.bridge in met), "a loop"
                met |= {edge.outer.bridge, edge.inner.bridge}
    assert met == {bridge for bridge in layout.bridges if not bridge.endswith("x")}
    return nodes


@settings(max_examples=80, deadline=None)
@given(clusters())
def test_rates_keep_their_ratios_or_say_so(cluster):
    layout = layout_of(cluster, "lab", 0)
    clamped = 0
    for edge in layout.edges:
        assert LOWEST <= edge.box_bandwidth <= HIGHEST
        exact = edge.bandwidth / layout.scale
        if abs(edge.box_bandwidth - exact) > 1:
            clamped += 1
            assert edge.box_bandwidth in (LOWEST, HIGHEST)
    assert bool(clamped) == any(remark.startswith("clamped: ") for remark in layout.remarks)


@settings(max_examples=80, deadline=None)
@given(clusters())
def test_automatic_scales_clamp_only_what_the_range_cannot_hold(cluster):
    layout = layout_of(replace(cluster, emulate=None), "lab", 0)
    rates = [edge.bandwidth for edge in layout.edges]
    if max(rates) / min(rates) <= HIGHEST / LOWEST and min(rates) >= LOWEST:
        assert layout.scale >= 1
        assert not [remark for remark in layout.remarks if remark.startswith("clamped")]
    elif min(rates) >= LOWEST:  # the slow ones, which a step waits for, are kept
        assert min(edge.box_bandwidth for edge in layout.edges) == round(min(rates) / layout.scale)


@pytest.mark.parametrize("name", list_presets())
def test_every_preset_has_a_layout(name):
    layout = layout_of(load_preset(name), safe_name(name), 0)
    assert len(layout.nodes) >= load_preset(name).hosts


def rates_of(layout):
    return {edge.kind: (edge.bandwidth, edge.box_bandwidth) for edge in layout.edges}


def test_eight_hosts_of_56_gigabits_become_half_a_gigabit_each():
    layout = layout_of(flat(8, link={"network": {"kind": "fdr-infiniband"}}, emulate={}), "lab", 0)
    assert (layout.time_scale, layout.byte_scale) == (10.0, 11.2)
    assert rates_of(layout) == {"nic": (56e9, 500_000_000)}
    assert sum(edge.box_bandwidth for edge in layout.edges) == TOTAL


@pytest.mark.parametrize(
    ("emulate", "scales"),
    [
        ({"time_scale": 1}, (1.0, 112.0)),
        ({"byte_scale": 1}, (112.0, 1.0)),
        ({"byte_scale": 1000}, (1.0, 1000.0)),
        ({"time_scale": 4, "byte_scale": 7}, (4.0, 7.0)),
    ],
)
def test_a_given_scale_is_kept(emulate, scales):
    layout = layout_of(flat(8, link={"network": {"kind": "fdr-infiniband"}}, emulate=emulate), "lab", 0)
    assert (layout.time_scale, layout.byte_scale) == scales


def test_nics_are_one_link_and_oversubscription_one_more():
    network = {"bandwidth": "200 Mb/s", "latency": "5 us", "nics": 4, "oversubscription": 2}
    layout = layout_of(flat(2, helpers=1, link={"network": network}), "lab", 0)
    assert rates_of(layout) == {"nic": (800e6, 800_000_000), "core": (400e6, 400_000_000)}
    assert [edge.name for edge in layout.edges if edge.kind == "core"] == ["host0 core", "host1 core", "helper0 core"]


def test_the_nic_hangs_where_the_file_says():
    edges = {edge.name: edge for edge in layout_of(tree(), "lab", 0).edges}
    assert edges["host0 nic"].inner.bridge == "pl-h0s0" == edges["host0-device3"].outer.bridge
    assert edges["host0-device4"].outer.bridge == "pl-h0s1"
    assert edges["host0 memory"].box_bandwidth == 550_000_000


def test_what_is_clamped_is_named():
    layout = layout_of(flat(3, network=10), "lab", 0)
    assert layout.remarks == (
        "clamped: host0 nic and 2 more like it are 50.0 Mb/s on the box where the scales ask for 10.0 Mb/s "
        "(10.0 Mb/s in the file)",
    )


def test_too_much_for_one_machine_is_one_sentence():
    with pytest.raises(
        PacelineError, match=r"has 300 hosts, helpers and devices to emulate, and one machine takes up to 253"
    ):
        layout_of(flat(300), "lab", 0)


@pytest.mark.parametrize("name", ["", "Lab", "a b", "-a", "a/b", "../x", "a" * 25, "a\n"])
def test_names_that_no_namespace_can_have(name):
    with pytest.raises(PacelineError, match="cannot be named"):
        layout_of(flat(2), name, 0)


@given(st.text(min_size=1, max_size=60))
def test_any_name_in_a_file_gives_a_safe_one(text):
    layout_of(flat(1), safe_name(text), 0)


def test_a_host_that_is_not_there():
    with pytest.raises(UnknownNameError, match="did you mean 'host0'"):
        layout_of(flat(2), "lab", 0).node("hots0")
