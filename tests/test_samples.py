"""Graphs and lists that others published: found by name and digest, downloaded once, never trusted."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses
from webserver import Server

import tpugraphs as tg
from tpugraphs import cli
from tpugraphs.data import origins, samples
from tpugraphs.data.origins import PublicFile
from tpugraphs.evaluation import official
from tpugraphs.system import transfer

CONTENT = b"some graphs of others"
# Of all arrays of a sample, with names, dtypes and shapes.
DIGESTS = {
    "alexnet": "4f72a19a00b5ccccb618f35a2b6e63eb9cf43734247abb6fbbcf0e34a4d825bf",
    "unet3d_train": "3875b1d7d8c0f0926718e642bf74c1e9abf39529bb21bef419404e09e0a106c4",
    "tile_00": "74fe0b33ac064ed40922aaed9f3b925d505b89286cd8dcebefb3c2c9d9e06282",
    "tile_01": "b60848163396139624a72d1d95d28cb4548ad145a08328defe6e03f40ddb8bd2",
    "tile_02": "abb349072158c903360843071e7a9428158161dfa1d42000d172991fe263d57e",
    "tile_03": "58f1390e2ad33fee5c4e44420c388605cb1e18e3b72b8d83c213dfe73746ed41",
    "tile_04": "efe9bd354b7e10dacd061e76e1f3ce3f4b9b17a0b9bf9150704592ec3e6fd8c9",
    "tile_05": "a9cb96dd550df3f1897cbe81c28f4f18f6daac2d9465fdb268463a76cb4a01e5",
    "tile_06": "c5bdc38d066975582f3bb35fe4438cac80d65eee024584871655bdb26bbb6214",
    "tile_07": "5297c2618a0c3bbf1bee4fffbce5dd60decc92d2fc0a3295ac3d77c91b7520ba",
    "tile_08": "c202bdb43afc12a4c2463d367582a28f83b2a7555fd09a07baa198b60ead44b3",
    "tile_09": "3a77d5006b2bca0bf53bb1383369b477dd497b0293956602267040a513b97858",
    "tile_10": "b63dfff5b201e417437ab4091bc3c0a5d8460e1d8239f37b3c2d40ef93c93f20",
    "tile_11": "4eaf521ad1e200ecaf6939dbcd3859fe3b6867b4dd54988b693388df0575a908",
    "tile_12": "b57cce05ccb6bb4f85cb00b90e703492aa3cd01b102967321373d69b5e126d46",
    "tile_13": "124fdad9442cb3d923240e14ff2159df0a8d359f825259e0fc2fb5b29a433bf1",
    "tile_14": "22e0c0ad33197fc9de6fb5fde6faf573c987d143b16c118a685e4703da48c84b",
}
ARRAYS = (
    "node_feat", "node_opcode", "edge_index", "node_config_ids", "config_digits", "config_runtime", "node_splits",
    "config_feat", "config_runtime_normalizers",
)  # fmt: skip


class Here(PublicFile):
    """A public file on a server of the tests."""

    server = ""

    @property
    def url(self):
        return f"{self.server}/{self.name}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(origins.VARIABLE, str(tmp_path / "data"))
    monkeypatch.setattr(transfer.time, "sleep", lambda _: None)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data"


@pytest.fixture
def published(folder, monkeypatch):
    server = Server({"/graphs.pb": CONTENT})
    monkeypatch.setattr(Here, "server", server.url)
    yield server
    server.close()


def public(content=CONTENT):
    digest = hashlib.sha256(content).hexdigest()
    return Here("graphs.pb", digest, repository="o/r", commit="0" * 40, size=len(content))


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_file_is_downloaded_once_after_saying_so(published, folder, capsys):
    path = origins.get(public())
    assert path == folder / "samples" / "graphs.pb" and path.read_bytes() == CONTENT
    said = capsys.readouterr().err
    assert f"downloading {published.url}/graphs.pb (21 bytes) to {folder / 'samples'}" in said
    assert files(folder) == ["samples/graphs.pb"] and len(published.requests) == 1
    assert origins.get(public()) == path and len(published.requests) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("place", ["", "samples", "tpu_pb_golden"])
def test_a_file_put_there_by_hand_is_found(folder, place):
    path = folder / place / "graphs.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert origins.get(public(), download=False) == path


def test_a_wrong_file_is_not_used_but_replaced(published, folder):
    for place in ("samples", "other"):
        (folder / place).mkdir(parents=True)
        (folder / place / "graphs.pb").write_bytes(CONTENT[:-1])
    with pytest.raises(tg.DataError, match="has another SHA-256 and is not used") as caught:
        origins.get(public(), download=False)
    assert all(str(folder / place / "graphs.pb") in str(caught.value) for place in ("samples", "other"))
    assert origins.get(public()) == folder / "samples" / "graphs.pb"
    assert (folder / "samples" / "graphs.pb").read_bytes() == CONTENT


def test_a_wrong_download_is_not_kept(published, folder):
    with pytest.raises(tg.DataError, match="the file at this address has SHA-256") as caught:
        origins.get(public(b"what it should have been"))
    assert caught.value.field == "sha256" and hashlib.sha256(CONTENT).hexdigest() in str(caught.value)
    assert list((folder / "samples").iterdir()) == []


def test_an_interrupted_download_leaves_nothing(published, folder, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(origins, "fetch", stop)
    with pytest.raises(KeyboardInterrupt):
        origins.get(public())
    assert list((folder / "samples").iterdir()) == []


@pytest.mark.parametrize("script", [[{"cut": 7}], [{"status": 503}]])
def test_passing_faults_are_retried(published, folder, script):
    published.script = script
    assert origins.get(public()).read_bytes() == CONTENT


def test_without_network_one_error_says_all(folder, monkeypatch):
    server = Server()
    server.close()
    monkeypatch.setattr(Here, "server", server.url)
    for download, tells in (
        (True, "cannot be downloaded: Connection refused"),
        (False, "is not to be downloaded"),
    ):
        with pytest.raises(tg.DataError) as caught:
            origins.get(public(), download=download)
        told = str(caught.value)
        assert caught.value.file == public().url and "\n" not in told
        for word in (tells, public().url, "graphs.pb", str(folder / "samples"), "TPUGRAPHS_DATA"):
            assert word in told
    assert files(folder) == []


def test_a_folder_that_cannot_be_written_is_named(published, folder):
    folder.write_bytes(b"")
    with pytest.raises(tg.DataError, match=f"cannot be stored: .*{folder}"):
        origins.get(public())


def test_the_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for value, expected in (("~/x", "x"), ("", "data/tpugraphs"), (None, "data/tpugraphs")):
        if value is None:
            monkeypatch.delenv(origins.VARIABLE)
        else:
            monkeypatch.setenv(origins.VARIABLE, value)
        assert origins.data_folder() == tmp_path / expected


def test_names_and_sources():
    assert tg.list_samples() == list(DIGESTS)
    for name in DIGESTS:
        info = tg.data.sample_info(name)
        assert info["url"].startswith("https://raw.githubusercontent.com/") and info["file"] in info["url"]
        assert info["licence"] == "Apache-2.0" and info["kind"] == ("tile" if "tile" in name else "layout")
        assert ", commit " in info["source"]
    refuses(lambda: tg.sample("alexnett"), tg.ConfigError, "'alexnet'")
    for wrong in (None, 3, ["alexnet"]):
        refuses(lambda: tg.sample(wrong), tg.ConfigError, "sample")
    for file in (*official._FILES.values(), samples._ALEXNET, samples._UNET, samples._TILES):
        assert len(file.commit) == 40 and len(file.sha256) == 64


@pytest.mark.parametrize("name", tg.list_samples())
def test_samples_are_what_they_were(real_sample, name):
    graph = real_sample(name).validate()
    assert graph.name == name and graph.has_runtimes and graph.kind == tg.data.sample_info(name)["kind"]
    found = hashlib.sha256()
    for field in ARRAYS:
        array = getattr(graph, field, None)
        if array is not None and not (graph.kind == "tile" and field in ("node_config_ids", "config_digits")):
            assert not array.flags.writeable
            found.update(
                f"{field} {array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes()
            )
    assert found.hexdigest() == DIGESTS[name]


@pytest.fixture
def alexnet(real_sample):
    """The sample, read before `folder` hides where it is."""
    return real_sample("alexnet")


def test_the_public_alexnet_becomes_the_sample(alexnet, folder, monkeypatch, tmp_path):
    """Its columns and runs are taken out of the sample, as its authors did; the other runs are made up."""
    graph = alexnet
    how = json.loads(Path(samples.__file__).with_name("alexnet.json").read_text())
    rows = np.unpackbits(np.frombuffer(samples.base64.b85decode(how["runs"]), np.uint8), count=47_712) > 0
    given = {
        name: getattr(graph, name) for name in ("edge_index", "node_opcode", "node_config_ids", "node_splits")
    }
    configs = np.zeros((47_712, 26, 10), np.float32)
    configs[rows] = graph.config_digits[:, :, how["config_columns"]]
    runtime = np.ones(47_712, np.int64)
    runtime[rows] = graph.config_runtime
    features = graph.node_feat[:, how["node_columns"]]
    np.savez(
        tmp_path / "a.npz", **given, node_feat=features, node_config_feat=configs, config_runtime=runtime
    )
    monkeypatch.setattr(samples, "get", lambda file, download: tmp_path / "a.npz")
    again = samples._alexnet(download=False)  # from a folder without the file in the published schema
    for field in (*given, "node_feat", "config_digits", "config_runtime"):
        assert getattr(again, field).tobytes() == getattr(graph, field).tobytes(), field


def test_commands_take_samples(real_sample, capsys):
    graph = real_sample("tile_05")
    assert cli.main(["inspect", "sample:tile_05", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["configs"] == graph.num_configs == 23
