"""All collections to one submission, its validation against data, and its score against SciPy and NumPy."""

import json

import madeup
import numpy as np
import pytest
from rankers import small_graph, small_ranker
from reference import submission as reference
from refusals import refuses
from test_distributed import finished, processes, start

import tpugraphs as tg
from tpugraphs import cli, submission
from tpugraphs.data import COLLECTIONS
from tpugraphs.submission import competition

LAYOUTS = [name for name in COLLECTIONS if name.startswith("layout")]


class Order:
    """Ranks tile graphs: last config first."""

    kind = "tile"

    def rank(self, graph, **_):
        return np.arange(graph.num_configs)[::-1]


def tile_graph(seed, configs):
    rng = np.random.default_rng(seed)
    feat = rng.normal(size=(3, 140)).astype(np.float32)
    feat[:, 134:] = 0
    return tg.TileGraph(
        node_feat=feat,
        node_opcode=[1, 2, 3],
        edge_index=[[1, 0], [2, 1]],
        config_feat=rng.normal(size=(configs, 24)).astype(np.float32),
        config_runtime=rng.integers(100, 10_000, configs),
        config_runtime_normalizers=rng.integers(100, 200, configs),
    )


def put(root, collection, split, name, graph):
    folder = root / "npz" / COLLECTIONS[collection] / split
    folder.mkdir(parents=True, exist_ok=True)
    graph.save(folder / f"{name}.npz")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Five small collections: valid graphs with runtimes, test graphs without; some of odd kinds."""
    root = tmp_path_factory.mktemp("five")
    for k, name in enumerate(LAYOUTS):
        for i in range(3):
            graph = small_graph(10 * k + i, configs=40 + i)
            if i == 1:  # equal runtimes count as ties
                graph = graph.replace(config_runtime=graph.config_runtime // 10**7 * 10**7)
            put(root, name, "valid", f"v{i}", graph)
            put(root, name, "test", f"t{i}", graph.replace(config_runtime=np.zeros(40 + i, np.int64)))
    put(root, LAYOUTS[0], "valid", "constant", small_graph(1, config_runtime=np.full(96, 7)))
    put(root, LAYOUTS[1], "test", "one", small_graph(2, configs=1))
    for i, configs in enumerate((12, 5, 3, 1, 700)):
        put(root, "tile:xla", "valid", f"v{i}", tile_graph(i, configs))
        put(root, "tile:xla", "test", f"t{i}", tile_graph(i, configs))
    return root


@pytest.fixture(scope="module")
def rankers(tmp_path_factory):
    """Folder of ranker files of the layout collections: two of the first, which rank together."""
    folder = tmp_path_factory.mktemp("rankers")
    for seed, name in enumerate(["layout-xla-random-seed0", "layout-xla-random-seed1", "layout_xla_default",
                                 "layout-nlp-random", "layout-nlp-default"]):  # fmt: skip
        ranker = small_ranker(seed=seed, steps=3)
        ranker.fit(small_graph(seed), verbose=False)
        ranker.save(folder / f"{name}.safetensors")
    (folder / "notes.txt").write_text("not a ranker")
    return folder


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def load(rankers):
    from tpugraphs.ranker.ensemble import open_rankers

    return {name: open_rankers(files) for name, files in competition.ranker_files(rankers).items()}


@pytest.fixture(scope="module")
def valid(root, rankers, tmp_path_factory):
    """A submission of the valid split of all five."""
    path = tmp_path_factory.mktemp("valid") / "valid.csv"
    splits = competition.open_splits(root, "valid")
    rows = list(competition.rank_all({**load(rankers), "tile:xla": Order()}, splits, verbose=False))
    submission.write(path, {r.id: r.ranking for r in rows}, {r.id: r.configs for r in rows})
    return path


def truths(root, split="valid"):
    found = {}
    for graphs in competition.open_splits(root, split).values():
        for graph in graphs:
            norm = graph.config_runtime_normalizers if graph.kind == "tile" else None
            found[graph.submission_id] = (graph.config_runtime, norm)
    return found


# Score


def test_score_is_that_of_an_independent_implementation(root, valid):
    given = submission.score(valid, *competition.open_splits(root, "valid").values())
    total, means = reference.score(valid, truths(root))
    assert given.total == pytest.approx(total, abs=1e-12)
    assert given.collections == pytest.approx(means, abs=1e-12) and len(means) == 5
    assert given.graphs[f"{LAYOUTS[0]}:constant"] == 0.0
    assert given.graphs["tile:xla:v2"] == given.graphs["tile:xla:v3"] == 1.0
    assert given.graphs["tile:xla:v4"] < 1.0
    assert not given.missing and not given.unknown
    assert f"{given.total:.6f}" in str(given) and "no graphs given" not in str(given)


@pytest.mark.parametrize("seed", range(5))
def test_scores_of_random_rankings(root, tmp_path, seed):
    rng = np.random.default_rng(seed)
    known = truths(root)
    rankings = {row_id: rng.permutation(len(y)) for row_id, (y, _) in known.items()}
    for row_id in rng.choice(sorted(rankings), 2, replace=False):
        del rankings[row_id]
    rankings["tile:xla:other"] = np.arange(5)
    submission.write(tmp_path / "s.csv", rankings)
    given = submission.score(tmp_path / "s.csv", *competition.open_splits(root, "valid").values())
    total, means = reference.score(tmp_path / "s.csv", known)
    assert given.total == pytest.approx(total, abs=1e-12) and given.collections == pytest.approx(means)
    assert len(given.missing) == 2 and all(given.graphs[row_id] == 0 for row_id in given.missing)
    assert given.unknown == ("tile:xla:other",)
    assert given.missing[0] in str(given) and "tile:xla:other" in str(given)


def test_collections_that_are_not_given_count_as_zero(root, valid):
    tiles = tg.open_collection("tile:xla", root).valid
    given = submission.score(valid, tiles)
    assert given.total == pytest.approx(given.collections["tile:xla"] / 5) and len(given.collections) == 1
    assert str(given).count("no graphs given: counts as 0") == 4
    one = submission.score(valid, tiles[0])
    assert list(one.graphs) == ["tile:xla:v0"]


def test_what_cannot_be_scored_is_named(root, valid, tmp_path):
    tiles = tg.open_collection("tile:xla", root).valid
    refuses(lambda: submission.score(valid), tg.ConfigError, "graphs")
    refuses(lambda: submission.score(valid, tiles, tiles[0]), tg.DataError, "twice")
    with pytest.raises(tg.DataError, match="placeholders"):
        submission.score(valid, tg.open_collection(LAYOUTS[0], root).test)
    refuses(lambda: submission.score(valid, tiles[0].replace(collection=None)), tg.DataError, "collection")
    rows = submission.read(valid)
    submission.write(tmp_path / "s.csv", {**rows, "tile:xla:v2": np.arange(5)})
    refuses(lambda: submission.score(tmp_path / "s.csv", tiles), tg.DataError, "line ", "tile:xla:v2")


# All collections to one file


def test_one_command_ranks_all_collections(capsys, root, rankers, tmp_path, monkeypatch):
    monkeypatch.setattr("tpugraphs.submission.competition._rank", slow := Counting(competition._rank))
    sample = {row_id: np.arange(min(count, 5)) for row_id, count in counts(root).items() if "tile" in row_id}
    submission.write(tmp_path / "tiles.csv", sample)
    out = tmp_path / "all.csv"
    code, text, err = run(
        capsys, "submit", "--rankers", rankers, "--root", root, "--fill", tmp_path / "tiles.csv", "--out", out
    )
    assert (code, err) == (0, "") and "valid, 18 rows" in text and "tile:xla: 5 rows (no ranker)" in text
    rows = submission.read(out)
    assert set(rows) == set(counts(root)) and slow.calls == 13
    loaded = load(rankers)
    for name in LAYOUTS:
        for graph in tg.open_collection(name, root).test:
            expected = [0] if graph.num_configs == 1 else loaded[name].rank(graph)
            np.testing.assert_array_equal(rows[graph.submission_id], expected)
    assert len(loaded["layout:xla:random"].rankers) == 2
    again = tmp_path / "again.csv"
    code, _, _ = run(
        capsys, "submit", "--rankers", rankers, "--root", root, "--keep", out, "--out", again, "--json"
    )
    assert code == 0 and slow.calls == 13 and submission.read(again).keys() == rows.keys()
    code, text, _ = run(capsys, "submit", "--validate", out, "--root", root)
    assert code == 0 and "valid, 18 rows" in text


class Counting:
    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


def counts(root):
    return competition.counts(competition.open_splits(root, "test"))


def test_five_rankers_one_file_one_score(capsys, root, rankers, tmp_path):
    """The competitor's day: a ranker of tiles beside the others, test rows, valid rows and their score."""
    tile = tg.Ranker("first-tile", width=16, blocks=1, steps=3)
    tile.fit(list(tg.open_collection("tile:xla", root).valid)[:1], verbose=False)
    tile.save(tmp_path / "tile.safetensors")
    out = tmp_path / "s.csv"
    common = ("--rankers", rankers, "--ranker", f"tile:xla={tmp_path / 'tile.safetensors'}", "--root", root)
    code, text, err = run(capsys, "submit", *common, "--out", out)
    assert (code, err) == (0, "") and "valid, 18 rows" in text and "no ranker" not in text
    rows = submission.read(out)
    for graph in tg.open_collection("tile:xla", root).test:
        expected = tile.rank(graph)[:5]
        np.testing.assert_array_equal(rows[graph.submission_id], expected)
    code, _, _ = run(capsys, "submit", *common, "--split", "valid", "--out", out)
    assert code == 0 and len(submission.read(out)) == 18
    code, text, _ = run(capsys, "submit", "--score", out, "--root", root, "--json")
    assert json.loads(text)["total"] == pytest.approx(reference.score(out, truths(root))[0], abs=1e-12)


def test_a_collection_without_a_ranker_is_told(capsys, root, rankers, tmp_path):
    assignment = f"layout:nlp:random={rankers / 'layout-nlp-random.safetensors'}"
    out = tmp_path / "s.csv"
    code, text, _ = run(capsys, "submit", "--ranker", assignment, "--root", root, "--out", out)
    assert code == 0 and text.count("no ranker, no rows; it will score 0") == 4 and "valid, 3 rows" in text
    code, text, _ = run(capsys, "submit", "--validate", out, "--root", root, "--json")
    told = json.loads(text)
    assert (
        code == 1 and len(told["problems"]) == 15 and all("missing" in p["message"] for p in told["problems"])
    )


def test_validation_against_data_names_every_problem(capsys, root, rankers, tmp_path):
    path = tmp_path / "s.csv"
    known = counts(root)
    assert len(known) == 18 and known["tile:xla:t4"] == 700 and known[f"{LAYOUTS[1]}:one"] == 1
    rows = {row_id: np.arange(count) for row_id, count in known.items()}
    rows[f"{LAYOUTS[0]}:t0"] = np.arange(39)
    rows["tile:xla:t0"] = np.array([12, 0, 1, 2, 3])
    rows["tile:xla:nobody"] = rows.pop("tile:xla:t1")
    submission.write(path, rows)
    with open(path, "a") as file:
        file.write("tile:xla:t2,0;1;2\n")
    code, text, _ = run(capsys, "submit", "--validate", path, "--root", root, "--json")
    told = {p["id"]: (p["line"], p["message"]) for p in json.loads(text)["problems"]}
    assert code == 1 and len(told) == 5
    assert told[f"{LAYOUTS[0]}:t0"][1] == "39 indices, expected 40"
    assert told["tile:xla:t0"] == (2, "index 12 is out of range 0..11 (graph of 12 configs)")
    assert "template does not have" in told["tile:xla:nobody"][1]
    assert told["tile:xla:t1"] == (None, "missing: the template has this ID")
    assert "already on line" in told["tile:xla:t2"][1] and told["tile:xla:t2"][0] == 20


def test_a_template_does_not_hide_the_graphs(capsys, root, tmp_path):
    """A sample that lists one config too few: what the graphs below --root have is right."""
    template, path = tmp_path / "t.csv", tmp_path / "s.csv"
    rows = {row_id: np.arange(count) for row_id, count in counts(root).items()}
    submission.write(path, rows)
    name = f"{LAYOUTS[0]}:t0"
    submission.write(template, rows | {name: np.arange(39)})
    both = ["submit", "--template", template, "--validate", path]
    assert run(capsys, *both)[0] == 0
    assert run(capsys, *both, "--root", root)[0] == 0
    submission.write(path, rows | {name: np.arange(39)})
    assert run(capsys, *both)[0] == 0  # nobody knows better
    code, text, _ = run(capsys, *both, "--root", root)
    assert code == 1 and f"{name}: 39 indices, expected 40" in text


def test_score_command(capsys, root, valid, tmp_path):
    code, text, err = run(capsys, "submit", "--score", valid, "--root", root, "--json")
    told = json.loads(text)
    assert (code, err) == (0, "") and told["total"] == pytest.approx(reference.score(valid, truths(root))[0])
    code, text, _ = run(capsys, "submit", "--score", valid, "tile:xla", "--root", root, "--split", "valid")
    assert code == 0 and text.count("no graphs given") == 4
    code, _, err = run(capsys, "submit", "--score", valid, "--root", root, "--split", "test")
    assert code == 1 and "placeholders" in err and err.count("\n") == 1


def test_what_is_done_is_kept_when_ranking_ends(capsys, root, rankers, tmp_path, monkeypatch):
    real, made = competition._rank, []

    def stop(*arguments):
        made.append(arguments[0])
        if len(made) == 5:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(competition, "_rank", stop)
    out = tmp_path / "s.csv"
    arguments = ("submit", "--rankers", rankers, "--root", root, "--out", out)
    code, _, err = run(capsys, *arguments)
    part = tmp_path / "s.partial.csv"
    assert code == 130 and f"--keep {part}" in err and not out.exists()
    assert list(submission.read(part)) == made[:4]
    monkeypatch.setattr(competition, "_rank", real)
    code, text, _ = run(capsys, *arguments, "--keep", part)
    assert code == 0 and "valid, 13 rows" in text


def test_graphs_that_no_ranker_can_rank(root, tmp_path):
    nothing = tg.LayoutGraph(
        node_feat=np.zeros((2, 140), np.float32), node_opcode=[1, 1], edge_index=[[1, 0]], node_config_ids=[],
        node_config_feat=np.zeros((3, 0, 18), np.int8), config_runtime=[0, 0, 0],
    )  # fmt: skip
    put(tmp_path, LAYOUTS[0], "test", "nothing", nothing)
    module = nothing.replace(node_config_feat=np.zeros((0, 0, 18), np.int8), config_runtime=[])
    put(tmp_path, LAYOUTS[0], "test", "module", module)
    splits = competition.open_splits(tmp_path)
    assert list(splits) == [LAYOUTS[0]]
    rows = {row.id: row for row in competition.rank_all({LAYOUTS[0]: small_ranker()}, splits)}
    assert rows[f"{LAYOUTS[0]}:module"].ranking is None and "no row" in rows[f"{LAYOUTS[0]}:module"].note
    assert rows[f"{LAYOUTS[0]}:nothing"].ranking.tolist() == [0, 1, 2] and rows[f"{LAYOUTS[0]}:nothing"].note
    assert competition.counts(splits) == {f"{LAYOUTS[0]}:module": 0, f"{LAYOUTS[0]}:nothing": 3}


def test_packs_are_counted_and_ranked_too(root, tmp_path):
    names = ("tile:xla", LAYOUTS[0])
    for name in names:
        folder = tmp_path / "npz" / COLLECTIONS[name] / "test"
        folder.mkdir(parents=True)
        for graph in tg.open_collection(name, root).test:
            graph.save(folder / f"{graph.name}.tgpack")
    packed, plain = (competition.open_splits(base, "test", names) for base in (tmp_path, root))
    assert all(path.endswith(".tgpack") for split in packed.values() for path in split.paths)
    assert competition.counts(packed) == competition.counts(plain)
    rows = [competition.rank_all({"tile:xla": Order()}, splits) for splits in (packed, plain)]
    for one, other in zip(*rows, strict=True):
        assert one.id == other.id and (one.ranking == other.ranking).all()


def test_wrong_usage(capsys, root, rankers, tmp_path):
    for arguments, word in (
        (["--ranker", "tile=x"], "expected COLLECTION=FILE"),
        (["--ranker", "tile:xla"], "expected COLLECTION=FILE"),
        (["--rankers", tmp_path], "no .safetensors files"),
        (["--rankers", rankers, "--score", "x"], "give RANKER and DATA"),
        (["--rankers", rankers, "--weights", "1,2"], "do not go with"),
        (["--ranker", f"tile:xla={rankers / 'layout-nlp-random.safetensors'}"], "ranks layout graphs"),
    ):
        code, _, err = run(capsys, "submit", *arguments, "--root", root, "--out", tmp_path / "s.csv")
        assert code == 2 and word in err, err
    (tmp_path / "best.safetensors").write_bytes(b"")
    code, _, err = run(capsys, "submit", "--rankers", tmp_path, "--root", root)
    assert code == 2 and "the name says no collection" in err
    code, _, err = run(capsys, "submit", "--validate", "x", "--root", tmp_path)
    assert code == 1 and "found none in" in err


def test_a_test_set_of_the_published_size(tmp_path, capsys):
    """894 rows for the graphs of a file like Kaggle's sample submission: 844 kernels and 50 modules."""
    sample = madeup.write_submission(tmp_path / "sample_submission.csv")
    tile, layout = tile_graph(0, 7), small_graph(0, configs=1000, nodes=4, config_nodes=2)
    tile.save(tmp_path / "tile.npz")
    layout.replace(config_runtime=np.zeros(1000, np.int64)).save(tmp_path / "layout.npz")
    for row_id in submission.read(sample):
        collection, _, name = row_id.rpartition(":")
        folder = tmp_path / "npz" / COLLECTIONS[collection] / "test"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.npz").hardlink_to(tmp_path / f"{collection.partition(':')[0]}.npz")
    ranker = small_ranker(steps=2)
    ranker.fit(layout, verbose=False)
    splits = competition.open_splits(tmp_path)
    rows = list(competition.rank_all({**dict.fromkeys(LAYOUTS, ranker), "tile:xla": Order()}, splits))
    submission.write(tmp_path / "s.csv", {row.id: row.ranking for row in rows})
    result = submission.validate(tmp_path / "s.csv", sample)
    assert result.ok and result.rows == 894
    code, text, _ = run(capsys, "submit", "--validate", tmp_path / "s.csv", "--root", tmp_path)
    assert code == 0 and "valid, 894 rows" in text


def test_collections_of_our_own_are_scored_over_what_ran(tmp_path):
    graphs = [tg.open_collection("options:xla:cpu").test[i] for i in range(3)]
    path, scores = tmp_path / "s.csv", [np.cos(np.arange(graph.num_configs)) for graph in graphs]
    orders = {g.submission_id: s.argsort() for g, s in zip(graphs, scores, strict=True)}
    submission.write(path, orders, {graph.submission_id: graph.num_configs for graph in graphs})
    assert submission.validate(path, {g.submission_id: g.num_configs for g in graphs}).ok
    found = submission.score(path, graphs)
    for graph, score in zip(graphs, scores, strict=True):
        expected = tg.metrics.kendall_tau(score[graph.ran], graph.runtime[graph.ran])
        assert found.graphs[graph.submission_id] == pytest.approx(expected)
    assert found.collections == {"options:xla:cpu": pytest.approx(np.mean(list(found.graphs.values())))}
    assert found.total == 0 and "competition" not in str(found) and "options:xla:cpu" in str(found)
    refuses(lambda: submission.write(path, {"options:xla:tpu:a": [0]}), tg.DataError, "options:xla:cpu")


@processes
def test_ranks_write_the_submission_of_one(root, rankers, tmp_path):
    written = []
    for size in (0, 3):
        for name, words in {
            "all": ["submit", "--rankers", rankers, "--split", "valid"],
            "one": [
                "submit",
                rankers / "layout_xla_default.safetensors",
                "layout:xla:default",
                "--split",
                "valid",
            ],
        }.items():
            out = tmp_path / f"{name}{size}.csv"
            own = ["-m", "tpugraphs"] if size == 0 else []
            code, text, err = finished(start(size, *own, *words, "--root", root, "--out", out))
            assert code == 0 and err.count("wrote") + text.count("wrote") == 1, err
            written.append(out.read_bytes())
    assert written[:2] == written[2:]
