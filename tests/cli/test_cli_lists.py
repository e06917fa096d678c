"""What there is: models with their exact sizes, strategies, devices, clusters, data, the doctor."""

from paceline.cli import examine
from paceline.cli.examine import Check

# Parameters of every network on 1x28x28, 3x32x32, 3x224x224 and 3x512x512 images, from the published layer tables.
# The MNIST form has two input channels fewer in its first convolution (3 x 3, of 64 or, in MobileNet, 32 filters).
IMAGES = {
    "resnet18": (11_173_962 - 2 * 9 * 64, 11_173_962, 11_689_512, 11_689_512),
    "resnet50": (23_520_842 - 2 * 9 * 64, 23_520_842, 25_557_032, 25_557_032),
    "resnet152": (58_156_618 - 2 * 9 * 64, 58_156_618, 60_192_808, 60_192_808),
    "vgg11": (9_231_114 - 2 * 9 * 64, 9_231_114, 132_863_336, 132_863_336),
    "vgg16": (14_728_266 - 2 * 9 * 64, 14_728_266, 138_357_544, 138_357_544),
    "mobilenet_v2": (2_296_922 - 2 * 9 * 32, 2_296_922, 3_504_872, 3_504_872),
}
VARIANTS = ("mnist", "cifar10", "imagenet", "highres")
TOKENS = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
}


def test_models(answer):
    found = {(m["name"], m["variant"]): m["parameters"] for m in answer("models")["models"]}
    wanted = {(name, v): count for name, counts in IMAGES.items() for v, count in zip(VARIANTS, counts, strict=True)}
    assert len(wanted) == 24
    assert wanted.items() <= found.items()
    assert all(found[name, None] == count for name, count in TOKENS.items())
    assert {"gpt-nano", "gpt-13b", "bert-base", "bert-large"} <= {name for name, _ in found}


def test_models_in_words(said):
    text = said("models")
    assert "25,557,032" in text and "124,439,808" in text


def test_strategies(answer):
    found = {s["name"]: s for s in answer("strategies")["strategies"]}
    assert found["allreduce"]["knobs"]["bucket_mb"] == 25.0 and found["single"]["knobs"] == {}
    assert all(s["summary"] for s in found.values())


def test_devices(answer):
    found = {d["name"]: d for d in answer("devices")["devices"]}
    assert {"p100", "v100-sxm2", "a100-sxm", "h100-sxm", "cpu"} <= found.keys()
    assert found["p100"]["memory_bytes"] == 16 * 2**30


def test_clusters(answer):
    found = {c["name"]: c for c in answer("clusters")["clusters"]}
    assert found["here"]["device"] == "cpu"
    taito = found["taito-p100"]
    assert (taito["kind"], taito["hosts"], taito["devices_per_host"]) == ("cluster", 8, 4)
    assert answer("cluster", "show", "taito-p100") == taito


def test_data(answer):
    sets = {s["name"]: s["here"] for s in answer("data", "list")["sets"]}
    assert sets["synthetic"] is True and sets["mnist"] is False and sets["folder:PATH"] is None


def test_data_written_here(answer, desk):
    written = answer("data", "write", "set", "--set", "model.name=cnn", "--samples", "64")
    assert written == {"folder": "set", "samples": 64}
    job = ["-s", "model.name=cnn", "-s", "cluster.preset=taito-p100", "-s", "data.name=synthetic:set"]
    assert answer("predict", *job, "-s", "train.batch_per_device=8", "-s", "data.validation=0")["epoch_samples"] == 64


def test_doctor(answer, said):
    found = answer("doctor")
    assert found["works"] and {"torch", "strategies", "runs folder"} <= {check["name"] for check in found["checks"]}
    assert said("doctor").startswith("Paceline works here.\n")


def test_doctor_where_something_is_missing(answer, said, monkeypatch):
    gap = Check("torch", False, "cannot be imported", "pip install torch", needed=True)
    monkeypatch.setattr(examine, "_torch", lambda: iter([gap]))
    assert answer("doctor", code=1)["works"] is False
    text = said("doctor", code=1)
    assert "cannot work here yet" in text and "[ ] torch: cannot be imported\n      -> pip install torch\n" in text
