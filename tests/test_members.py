"""Members of ensembles trained side by side, distillation, fits that begin with given weights, routes."""

import numpy as np
import pytest
from rankers import Break, small_graph, small_tile, state
from refusals import refuses
from test_distributed import together

import tpugraphs as tg

SHORT = {"steps": 4, "width": 16, "configs": 16, "evaluate_every": 2, "valid_configs": 32}


@pytest.fixture(scope="module")
def graphs():
    return [small_graph(seed) for seed in range(3)]


def ranker(recipe="first-layout", **fields):
    return tg.Ranker(recipe, **{**SHORT, **fields})


def test_members_have_the_bits_that_they_have_alone(graphs):
    *train, valid = graphs
    alone = [ranker(seed=1), ranker("sixth-gin", slates=2, prune="none")]
    for one in alone:
        one.fit(train, [valid], verbose=False)
    for workers in (1, 2):
        together = [ranker(seed=1), ranker("sixth-gin", slates=2, prune="none")]
        ensemble = tg.train_members(together, train, [valid], workers=workers, verbose=False)
        assert [state(one) for one in together] == [state(one) for one in alone]
        assert ensemble.normalize == "rank" and tuple(ensemble) == tuple(together)
        expected = tg.Ensemble(alone, normalize="rank").predict(valid)
        assert (ensemble.predict(valid) == expected).all()


def test_members_by_name_and_of_trees(graphs):
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    trees = tg.Ranker("eighth-lightgbm", min_data_in_leaf=2)
    ensemble = tg.train_members([trees, "first-layout"], graphs[0], steps=2, verbose=False)
    assert [one.name for one in ensemble] == ["eighth-lightgbm", "first-layout"]
    assert all(one.history_.loss and one.fitted for one in ensemble)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_ranks_share_the_members_and_all_get_all(graphs, size):
    pytest.importorskip("lightgbm", reason="needs the extra [lightgbm]")
    *train, valid = graphs
    trees = {"min_data_in_leaf": 2}

    def members():
        some = [ranker(seed=1), ranker("sixth-gin", slates=2, prune="none"), ranker(seed=2)]
        return [*some, *(tg.Ranker("eighth-lightgbm", seed=seed, **trees) for seed in (0, 1))]

    expected = tg.train_members(members(), train, [valid], verbose=False)
    for ensemble in together(size, lambda comm: tg.train_members(members(), train, [valid], verbose=False,
                                                                 communicator=comm)):  # fmt: skip
        for one, other in zip(ensemble, expected, strict=True):
            assert (one.predict(valid) == other.predict(valid)).all()
        assert (ensemble.predict(valid) == expected.predict(valid)).all()


def test_members_resume(graphs, tmp_path):
    *train, valid = graphs
    straight = [ranker(), ranker(seed=1)]
    tg.train_members(straight, train, [valid], verbose=False)
    folder = tmp_path / "states"
    tg.train_members([ranker(), ranker(seed=1)], train, [valid], checkpoint_dir=folder, verbose=False)
    assert sorted(path.name for path in folder.iterdir()) == ["member-0", "member-1"]
    again = [ranker(), ranker(seed=1)]
    tg.train_members(again, train, [valid], checkpoint_dir=folder, verbose=False)
    assert [state(one) for one in again] == [state(one) for one in straight]


def test_members_that_cannot_be_trained(graphs):
    one = ranker()
    for given in ([], [3], [tg.ranker.RandomBaseline()], "first-layout", one, None, [one, one]):
        refuses(lambda: tg.train_members(given, graphs), tg.ConfigError, "rankers")
    for wrong in ("workers", "checkpoint_every"):
        with pytest.raises(tg.ConfigError, match=f"{wrong}: expected a whole number of at least 1, got 0"):
            tg.train_members([ranker()], graphs, **{wrong: 0})
    with pytest.raises(tg.DataError, match="LayoutGraph.*TileGraph"):
        tg.train_members(["first-layout"], small_tile())


def test_a_student_learns_what_the_teacher_says(graphs):
    train, valid, unseen = graphs
    teacher = ranker(steps=60)
    teacher.fit([train, valid], verbose=False)
    nameless = train.replace(config_runtime=np.ones_like(train.config_runtime))  # was never measured
    student = tg.distill(teacher, ranker(steps=300, learning_rate=1e-2, seed=3), nameless, verbose=False)
    agreement = tg.metrics.kendall_tau(student.predict(train), teacher.predict(train))
    stranger = ranker(seed=3)
    stranger.fit(unseen, verbose=False)
    assert agreement > 0.5 > abs(tg.metrics.kendall_tau(stranger.predict(train), teacher.predict(train)))
    again = tg.distill(teacher, ranker(steps=3), unseen, n_configs=20, verbose=False)
    assert again.fitted
    refuses(lambda: tg.distill(teacher, "second-xla", graphs), tg.ConfigError, "student", "second-xla")
    refuses(lambda: tg.distill(teacher, 3, graphs), tg.ConfigError, "student", "got 3")


def test_a_fit_begins_with_given_weights(graphs):
    first = ranker(steps=30)
    first.fit(graphs[:2], verbose=False)
    still = ranker(learning_rate=0.0)
    still.fit(graphs[2], init=first, steps=1, verbose=False)
    assert (still.model.params == first.model.params).all()
    assert still.pipeline.same_as(first.pipeline)
    assert (still.predict(graphs[2]) == first.predict(graphs[2])).all()
    tuned = ranker(steps=5)
    tuned.fit(graphs[2], init=first, verbose=False)
    alone = ranker(steps=5)
    alone.fit(graphs[2], verbose=False)
    assert state(tuned) != state(alone) and state(first) != state(tuned)
    itself = ranker(steps=5)
    itself.fit(graphs[:2], verbose=False)
    before = itself.model.params.copy()
    itself.fit(graphs[2], init=itself, steps=1, verbose=False)
    assert 0 < np.abs(itself.model.params - before).max() < 0.1


def test_a_fit_that_began_with_weights_resumes(graphs, tmp_path):
    first = ranker(steps=10)
    first.fit(graphs[:2], verbose=False)
    straight, resumed = ranker(), ranker()
    straight.fit(graphs[2], init=first, callbacks=[Break()], verbose=False)
    options = {"init": first, "checkpoint_dir": tmp_path, "checkpoint_every": 1, "verbose": False}
    with pytest.raises(OSError, match="broken"):
        ranker().fit(graphs[2], callbacks=[Break(2)], **options)
    resumed.fit(graphs[2], callbacks=[Break()], **options)
    assert state(straight) == state(resumed)
    other = ranker(steps=11)
    other.fit(graphs[:2], verbose=False)
    with pytest.raises(tg.CheckpointError, match="init"):
        ranker().fit(graphs[2], callbacks=[Break()], **{**options, "init": other})


def test_weights_of_another_model_are_refused(graphs):
    first = ranker()
    first.fit(graphs[0], verbose=False)
    for other in (ranker(width=32), ranker("first-layout-cross")):
        refuses(lambda: other.fit(graphs[1], init=first, verbose=False), tg.ConfigError, "init")
        assert not other.fitted
    refuses(lambda: ranker().fit(graphs[0], init=ranker(), verbose=False), tg.Error, "learnt nothing")
    refuses(lambda: ranker().fit(graphs[0], init="first-layout", verbose=False), tg.ConfigError, "init")


def test_routed_rankers_take_a_share_to_validate_on(graphs):
    routed = tg.Routed({"*": ranker()})
    routed.fit(graphs[:2], 0.3, verbose=False)
    alone = ranker()
    alone.fit(graphs[:2], 0.3, verbose=False)
    assert state(routed.routes["*"]) == state(alone) and alone.history_.valid_metric


def test_routes_by_family_and_shape(graphs, tmp_path):
    berts, nets = graphs[0].replace(name="small_bert_4"), graphs[1].replace(name="resnet50_8")
    one, other = ranker(), ranker(seed=1)
    routed = tg.Routed({"bert": one, "*": other}, by="family")
    routed.fit([berts, nets], verbose=False)
    assert routed.route(berts) is one and routed.route(nets) is other
    assert (routed.predict(berts) == one.predict(berts)).all()
    routed.save(tmp_path / "r.safetensors")
    loaded = tg.load_ranker(tmp_path / "r.safetensors")
    assert loaded.by == "family" and (loaded.predict(nets) == other.predict(nets)).all()
    score = (one.score([berts]) + 2 * other.score([nets, nets])) / 3
    assert routed.score([berts, nets, nets]) == pytest.approx(score)
    shape = f"{berts.num_nodes}x{berts.num_edges}"
    assert tg.Routed({shape: one}, by="shape").route(nets) is one
    with pytest.raises(tg.DataError, match="no route for '14x13'") as caught:
        tg.Routed({"1x1": one}, by="shape").route(nets)
    assert (caught.value.field, caught.value.found, caught.value.expected) == ("shape", "14x13", "1x1")
    refuses(lambda: routed.score([]), tg.DataError, "graphs")
    refuses(lambda: tg.Routed({"*": one}, by="size"), tg.ConfigError, "by:")
