"""One changed bit in a ranker, an ensemble or a checkpoint is found: no file loads silently with other scores."""

import json
import random
import time
import warnings

import numpy as np
import pytest
from broken import npz
from broken.rankers import rewrite
from rankers import Break, small_graph, small_ranker, state
from refusals import refuses

import tpugraphs as tg
from tpugraphs.system import tensorfile
from tpugraphs.training import CHECKPOINT

OPTIONS = {"valid": 0.2, "callbacks": [Break()], "verbose": False}


@pytest.fixture(scope="module")
def rankers():
    fitted = [small_ranker(seed=seed, steps=2) for seed in range(2)]
    for ranker in fitted:
        ranker.fit(small_graph(), verbose=False)
    return fitted


def ranker_file(folder, rankers):
    rankers[0].save(folder / "x")
    return folder / "x", lambda path: tg.Ranker.load(path).predict(small_graph()).tobytes()


def ensemble_file(folder, rankers):
    tg.Ensemble(rankers).save(folder / "x")
    return folder / "x", lambda path: tg.load_ranker(path).predict(small_graph()).tobytes()


def checkpoint_file(folder, rankers):
    options = {**OPTIONS, "checkpoint_dir": folder, "checkpoint_every": 2}
    with pytest.raises(OSError, match="broken"):
        small_ranker(steps=6).fit(small_graph(), **{**options, "callbacks": [Break(4)]})

    def resume(path):
        ranker = small_ranker(steps=6)
        ranker.fit(small_graph(), **options)
        return state(ranker)

    return folder / CHECKPOINT, resume


def places(content):
    """Ranges of bytes of a file by what they are: the header's length and words, the metadata, every tensor."""
    size = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:size])
    text = json.dumps(header.pop("__metadata__")["tpugraphs"]).encode()
    metadata, digests = content.index(text), content.index(b'\\"_digests\\"')
    end = metadata + len(text)
    tensors = {name: [size + at for at in entry["data_offsets"]] for name, entry in header.items()}
    found = {"length": (0, 8), "before": (8, metadata), "metadata": (metadata, digests)}
    return {**found, "digests": (digests, end), "header": (end, size), **tensors}


@pytest.mark.parametrize("make, count", [(ranker_file, 200), (ensemble_file, 100), (checkpoint_file, 60)])
def test_no_flipped_bit_gives_other_scores_silently(make, count, rankers, tmp_path):
    path, use = make(tmp_path, rankers)
    good = path.read_bytes()
    whole, rng, refused = use(path), random.Random(make.__name__), 0
    ranges = [(name, place) for name, place in places(good).items() if place[0] < place[1]]
    for i in range(count):
        name, (first, last) = ranges[i % len(ranges)]
        bad = bytearray(good)
        bad[rng.randrange(first, last)] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            try:
                found = use(path)
            except tg.CheckpointError as error:
                assert error.file == str(path) and error.field
                refused += 1
            else:
                assert found == whole, name
    assert refused > 0.8 * count


def test_a_damaged_tensor_is_named(rankers, tmp_path):
    path, _ = ranker_file(tmp_path, rankers)
    content = bytearray(path.read_bytes())
    content[places(content)["head.weight"][0]] ^= 1
    path.write_bytes(content)
    refuses(lambda: tg.load_ranker(path), tg.CheckpointError, "head.weight")


def test_files_without_digests_open_with_a_warning(rankers, tmp_path):
    path, use = ranker_file(tmp_path, rankers)
    whole, content = use(path), path.read_bytes()
    path.write_bytes(content.replace(b'\\"_digests\\"', b'\\"_digestz\\"'))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        scores = [use(path) for _ in range(3)]
    assert scores == [whole] * 3
    assert [(w.category, str(path) in str(w.message)) for w in found] == [(UserWarning, True)]


def leaves(value, path=()):
    """Places of all numbers in nested dicts and lists."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from leaves(child, (*path, key))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path


def linear_file(folder, rankers):
    tg.ranker.LinearBaseline().fit(small_graph()).save(folder / "x")
    return folder / "x", lambda path: tg.load_ranker(path).predict(small_graph()).tobytes()


def random_file(folder, rankers):
    tg.ranker.RandomBaseline().save(folder / "x")
    return folder / "x", lambda path: tg.load_ranker(path).predict(small_graph()).tobytes()


@pytest.mark.parametrize("make", [ranker_file, ensemble_file, checkpoint_file, linear_file, random_file])
def test_absurd_numbers_anywhere_in_the_metadata(make, rankers, tmp_path):
    """With digests that are right: a number of 400 digits, or a counter that would be counted up to for ever."""
    path, use = make(tmp_path, rankers)
    good = path.read_bytes()
    (tmp_path / "good").write_bytes(good)
    metadata, _ = tensorfile.read(path, make.__name__.removesuffix("_file").replace("random", "random-baseline")
                                  .replace("linear", "linear-baseline"))  # fmt: skip
    for place in leaves(metadata):
        if place[0] in ("members", "schema"):
            continue
        for number in (10**400, -(10**400), 2**40):

            def change(metadata, tensors, place=place, number=number):
                for key in place[:-1]:
                    metadata = metadata[key]
                metadata[place[-1]] = number

            rewrite(tmp_path / "good", path, change)
            try:
                use(path)
            except tg.CheckpointError as error:
                assert error.file == str(path) and error.field, place
            path.write_bytes(good)


def test_a_counter_of_visits_is_what_the_steps_allow(rankers, tmp_path):
    path, use = checkpoint_file(tmp_path, rankers)
    rewrite(path, path, lambda metadata, tensors: metadata["sampler"].update(visit=2**40))
    refuses(lambda: use(path), tg.CheckpointError, "sampler.visit")


@pytest.mark.parametrize("make", [npz.layout, npz.any_schema])
def test_a_lazy_file_that_cannot_be_read_is_named(make, tmp_path, monkeypatch):
    path = tmp_path / "g.npz"
    path.write_bytes(npz.npz(make()))
    graph = tg.load(path)
    path.unlink()
    with pytest.raises(FileNotFoundError) as error:
        np.asarray(graph.node_config_feat)
    assert error.value.filename == str(path)


def test_layouts_in_the_node_features_are_validated(tmp_path):
    graph = small_graph()
    features = graph.node_feat.copy()
    features[3, 135] = 0.5
    graph.replace(node_feat=features).save(tmp_path / "g.npz")
    with pytest.raises(tg.DataError, match=r"g\.npz: node_feat: .* found 0\.5 \(node 3, column 135\)"):
        tg.load(tmp_path / "g.npz").validate()


def test_saving_twice_gives_the_same_bytes(rankers, tmp_path):
    contents = []
    for _ in range(8):
        rankers[0].save(tmp_path / "x")
        contents.append((tmp_path / "x").read_bytes())
    assert len(set(contents)) == 1


def test_digests_cost_little_time(tmp_path):
    tensors = {str(i): np.random.default_rng(i).random(2**14) for i in range(8)}  # 1 MB
    tensorfile.write(tmp_path / "x", "ranker", {"a": 1}, tensors)
    took = []
    for _ in range(20):
        began = time.process_time()
        tensorfile.read(tmp_path / "x", "ranker")
        took.append(time.process_time() - began)
    assert min(took) < 0.02
