"""The ``[emulate]`` table: read, written back, refused."""

import json

import pytest

from paceline.artefact import from_dict, to_dict
from paceline.cluster.cluster import Cluster
from paceline.cluster.emulation import Emulation
from paceline.cluster.file import as_data, cluster_from, read_cluster
from paceline.cluster.presets import load_preset
from paceline.errors import FileError

GOOD = [
    ("", Emulation()),
    ("time_scale = 10", Emulation(10.0)),
    ("time_scale = 2.5\nbyte_scale = 40", Emulation(2.5, 40.0)),
    ('time_scale = "auto"\nbyte_scale = 1', Emulation("auto", 1.0)),
]
BAD = [
    ("time_scale = 0.5", "emulate.time_scale", "must be from 1"),
    ("byte_scale = -3", "emulate.byte_scale", "must be from 1"),
    ("byte_scale = inf", "emulate.byte_scale", "must be a number from 1"),
    ("byte_scale = nan", "emulate.byte_scale", "must be a number from 1"),
    ("byte_scale = 1e13", "emulate.byte_scale", "must be from 1"),
    ("time_scale = true", "emulate.time_scale", "must be a number from 1"),
    ('time_scale = "fast"', "emulate.time_scale", 'or "auto"'),
    ('time_scale = "10"', "emulate.time_scale", 'or "auto"'),
    ("time_scale = [10]", "emulate.time_scale", 'or "auto"'),
    ("time_scal = 10", "emulate.time_scal", "did you mean 'time_scale'"),
]


@pytest.mark.parametrize(("table", "value"), GOOD)
def test_a_table_is_read_and_survives(table, value, tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(f'device = "t4"\n[emulate]\n{table}\n')
    cluster = read_cluster(path)
    assert cluster.emulate == value
    assert cluster_from(json.loads(json.dumps(as_data(cluster))), "again") == cluster
    assert from_dict(Cluster, json.loads(json.dumps(to_dict(cluster)))) == cluster
    assert cluster.subset(1).emulate == value


@pytest.mark.parametrize(("table", "key", "what"), BAD)
def test_a_wrong_table_names_its_key(table, key, what, tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(f'device = "t4"\n[emulate]\n{table}\n')
    with pytest.raises(FileError) as error:
        read_cluster(path)
    assert (error.value.where, error.value.key) == (str(path), key)
    assert what in error.value.what


@pytest.mark.parametrize("value", [3, [{}], "auto"])
def test_a_table_that_is_none(value):
    with pytest.raises(FileError, match=r"emulate: is .*, must be a table"):
        cluster_from({"device": "t4", "emulate": value}, "lab.toml")


def test_a_saved_cluster_of_before_still_loads():
    data = to_dict(load_preset("dgx-a100"))
    assert data.pop("emulate") is None
    assert from_dict(Cluster, data) == load_preset("dgx-a100")


def test_a_saved_cluster_with_a_wrong_scale_is_refused():
    data = to_dict(load_preset("dgx-a100")) | {"emulate": {"time_scale": 0.1, "byte_scale": "auto"}}
    with pytest.raises(FileError, match=r"emulate.time_scale"):
        from_dict(Cluster, data)


def test_a_wrong_value_from_python():
    with pytest.raises(ValueError, match="byte_scale is 0"):
        Emulation(byte_scale=0)
