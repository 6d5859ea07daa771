"""Exact resume: whatever stops a fit, going on from its checkpoint ends with the same bits."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from broken.rankers import rewrite
from rankers import Break, Lazy, small_graph, small_ranker, state
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core
from tpugraphs.training import CHECKPOINT, Callback, EarlyStopping

STEPS, EVERY = 600, 3
CHILD = f"""
import sys
sys.path.insert(0, sys.argv[2])
from rankers import small_graph, small_ranker
r = small_ranker(steps={STEPS}, evaluate_every=20)
graphs = [small_graph(i, configs=60) for i in range(3)]
print("ready", flush=True)
r.fit(graphs, 0.2, checkpoint_dir=sys.argv[1], checkpoint_every={EVERY}, verbose=False)
r.save(sys.argv[1] + "/end.safetensors")
"""


def same(a, b):
    """Equal histories but for the time they took."""
    keep = {"seconds": 0.0, "step_seconds": 0.0, "evaluation_seconds": 0.0}
    return {**a.to_dict(), **keep} == {**b.to_dict(), **keep}


@pytest.mark.slow
def test_killed_ten_times_the_end_is_the_same(tmp_path):
    """SIGKILL at random moments: of a step, an evaluation, or a write."""
    here, folder, chance = Path(__file__).parent, tmp_path / "run", random.Random(20)
    folder.mkdir()
    kills, last, end = 0, -1, folder / "end.safetensors"
    while not end.exists():
        assert kills < 200, "no progress"
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(folder), str(here)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "ready\n"
        if kills < 10:
            checkpoint = folder / CHECKPOINT
            before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
            deadline = time.monotonic() + 30
            while child.poll() is None and time.monotonic() < deadline:  # let it get a little further
                if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                    break
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.02))
            assert child.poll() is None, "it ended before it could be killed: give it more steps"
            child.kill()
            kills += 1
        child.wait()
        child.stdout.close()
        step = json.loads(_metadata(folder / CHECKPOINT))["step"]
        assert step >= last
        last = step
    assert kills == 10
    whole = small_ranker(steps=STEPS, evaluate_every=20)
    whole.fit([small_graph(i, configs=60) for i in range(3)], 0.2, verbose=False)
    assert (tg.Ranker.load(end).model.params == whole.model.params).all()
    left = sorted(path.name for path in folder.iterdir())
    assert left == [CHECKPOINT, "end.safetensors"]


def _metadata(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size])["__metadata__"]["tpugraphs"]


@pytest.mark.parametrize("at", [1, 4, 5, 6, 10])
@pytest.mark.parametrize("every", [1, 4])
def test_everything_comes_back(tmp_path, at, every):
    def fit(folder, at=None):
        r = small_ranker(steps=20, seed=np.int64(3))
        stopping = EarlyStopping(patience=2)
        options = {"checkpoint_dir": folder, "checkpoint_every": every, "verbose": False}
        h = r.fit(Lazy(0, 1, 2), [small_graph(3)], callbacks=[Break(at), stopping], **options).history_
        return r, h, stopping

    r, h, stopping = fit(None)
    with pytest.raises(OSError, match="broken"):
        fit(tmp_path, at)
    again, history, stopping_again = fit(tmp_path)
    assert same(h, history) and stopping.state() == stopping_again.state()
    assert state(r) == state(again)


def test_a_finished_fit_is_not_repeated(tmp_path):
    g, r = small_graph(), small_ranker()
    h = r.fit(g, 0.2, checkpoint_dir=tmp_path, verbose=False).history_
    steps = []

    class Count(Callback):
        def on_step(self, fit):
            steps.append(fit.step)

    twin = small_ranker()
    with pytest.raises(tg.CheckpointError, match="callbacks"):
        twin.fit(g, 0.2, checkpoint_dir=tmp_path, callbacks=[Count()], verbose=False)
    again = twin.fit(g, 0.2, checkpoint_dir=tmp_path, verbose=False).history_
    assert same(h, again) and steps == []
    assert (twin.predict(g) == r.predict(g)).all()
    assert twin.partial_fit(g, [0, 1, 2]) == r.partial_fit(g, [0, 1, 2])  # with the moments of the last step


def test_a_stopped_fit_stays_stopped(tmp_path):
    class Stop(Callback):
        def on_step(self, fit):
            if fit.step == 4:
                fit.stop("enough")

    g = small_graph()
    first = small_ranker().fit(g, checkpoint_dir=tmp_path, callbacks=[Stop()], verbose=False).history_
    again = small_ranker().fit(g, checkpoint_dir=tmp_path, callbacks=[Stop()], verbose=False).history_
    assert same(first, again) and again.stopped == "enough" and len(again.loss) == 4


OTHER_FITS = {
    "recipe": lambda r, g: (small_ranker("first-layout"), g, None),
    "seed": lambda r, g: (small_ranker(seed=1), g, None),
    "field dropout": lambda r, g: (small_ranker(dropout=0.1), g, None),
    "total steps": lambda r, g: (small_ranker(steps=21), g, None),
    "train": lambda r, g: (r, small_graph(1), None),
    "train: other runtimes": lambda r, g: (r, g.replace(config_runtime=g.config_runtime + 1), None),
    "train: other configs": lambda r, g: (r, g.replace(node_config_feat=g.config_digits[::-1]), None),
    "train: more graphs": lambda r, g: (r, [g, small_graph(1)], None),
    "valid": lambda r, g: (r, g, small_graph(1)),
}


@pytest.mark.parametrize("name", OTHER_FITS)
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, name):
    g = small_graph()
    small_ranker().fit(g, checkpoint_dir=tmp_path, verbose=False)
    r, train, valid = OTHER_FITS[name](small_ranker(), g)
    with pytest.raises(tg.CheckpointError, match="another fit") as error:
        r.fit(train, valid, checkpoint_dir=tmp_path, verbose=False)
    field = name.partition(":")[0]
    assert f"{field}:" in str(error.value) and CHECKPOINT in str(error.value)
    assert error.value.field == field


def resumable(folder):
    """Checkpoint of a fit that an error stopped at step 7."""
    with pytest.raises(OSError, match="broken"):
        small_ranker().fit(
            small_graph(), 0.2, checkpoint_dir=folder, checkpoint_every=1, callbacks=[Break(7)], verbose=False
        )
    return folder / CHECKPOINT


def test_a_fit_that_changes_its_instruction_set_is_warned_of(tmp_path):
    def fit(at=None):
        ranker = small_ranker(steps=12)
        ranker.fit(
            small_graph(), checkpoint_dir=tmp_path, checkpoint_every=1, callbacks=[Break(at)], verbose=False
        )
        return ranker

    here, *others = _core.isa_levels()
    with pytest.raises(OSError, match="broken"):
        fit(3)
    assert json.loads(_metadata(tmp_path / CHECKPOINT))["instruction_sets"] == [here]
    with pytest.raises(OSError, match="broken"):  # the same one: no warning
        fit(5)
    if not others:
        pytest.skip("this machine has one instruction set")
    _core.set_isa("baseline")
    hint = rf"taken with the instruction set {here}, here baseline is in use.*TPUGRAPHS_ISA={here}"
    with pytest.raises(OSError, match="broken"), pytest.warns(UserWarning, match=hint) as warned:
        fit(7)
    assert warned[0].filename == __file__
    with pytest.warns(
        UserWarning, match=f"taken with the instruction set {here} and baseline, here baseline"
    ):
        fit()
    assert json.loads(_metadata(tmp_path / CHECKPOINT))["instruction_sets"] == [here, "baseline"]
    _core.set_isa(here)
    with pytest.warns(UserWarning, match=f"{here} and baseline, here {here}"):
        fit()
    # files from before the field existed
    rewrite(tmp_path / CHECKPOINT, tmp_path / CHECKPOINT, lambda m, t: m.pop("instruction_sets"))
    fit()


DAMAGE = {
    "step": (lambda m, t: m.update(step=99), "step"),
    "step is text": (lambda m, t: m.update(step="6"), "step"),
    "sampler": (lambda m, t: m.update(sampler={"visit": 0}), "step"),
    "no sampler": (lambda m, t: m.pop("sampler"), "sampler"),
    "no callbacks": (lambda m, t: m.update(callbacks=[]), "step"),
    "best step": (lambda m, t: m.update(best_step=None), None),
    "moment": (lambda m, t: t.pop("moment2"), "moment2"),
    "short parameters": (lambda m, t: t.update(params=t["params"][:-1]), "params"),
    "loss": (lambda m, t: t.update(loss=t["loss"][:3]), "loss"),
    "no evaluations": (lambda m, t: t.pop("valid_steps"), "valid_steps"),
    "evaluations": (lambda m, t: t.update(valid_metric=np.zeros(9)), "valid_metric"),
    "scaler": (lambda m, t: t.update({"scaler.mean": t["scaler.mean"] + 1}), "scaler.mean"),
    "identity": (lambda m, t: m.pop("identity"), "identity"),
    "instruction sets": (lambda m, t: m.update(instruction_sets=[3]), "instruction_sets"),
    "version": (lambda m, t: m.update(version=0), "version"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_checkpoint_is_refused(tmp_path, name):
    path = resumable(tmp_path)
    change, word = DAMAGE[name]
    rewrite(path, path, change)
    options = {"checkpoint_dir": tmp_path, "callbacks": [Break()], "verbose": False}
    if word is None:
        small_ranker().fit(small_graph(), 0.2, **options)
        return
    r = small_ranker()
    before = r.model.params.copy()
    with pytest.raises(tg.CheckpointError) as error:
        r.fit(small_graph(), 0.2, **options)
    assert word in str(error.value)
    assert (r.model.params == before).all()


def test_a_checkpoint_from_before_a_field_existed_had_its_default(tmp_path):
    def forget(metadata, tensors):
        for name in ("optimizer", "momentum", "schedule", "loss", "metric"):
            del metadata["identity"][f"field {name}"]

    path, options = resumable(tmp_path), {"callbacks": [Break()], "verbose": False}
    rewrite(path, path, forget)
    with pytest.raises(tg.CheckpointError, match="optimizer.*'adamw'.*'sgd'"):
        small_ranker(optimizer="sgd").fit(small_graph(), 0.2, checkpoint_dir=tmp_path, **options)
    resumed, straight = small_ranker(), small_ranker()
    history = resumed.fit(small_graph(), 0.2, checkpoint_dir=tmp_path, **options).history_
    assert same(history, straight.fit(small_graph(), 0.2, **options).history_)
    assert (resumed.model.params == straight.model.params).all()


def test_a_cut_checkpoint_is_refused(tmp_path):
    path = resumable(tmp_path)
    data = path.read_bytes()
    for size in (0, 7, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(tg.CheckpointError, match="header"):
            small_ranker().fit(
                small_graph(), 0.2, checkpoint_dir=tmp_path, callbacks=[Break()], verbose=False
            )


def test_a_ranker_file_is_no_checkpoint(tmp_path):
    path = resumable(tmp_path)
    refuses(lambda: tg.Ranker.load(path), tg.CheckpointError, "kind", "'ranker'", "'checkpoint'")


def test_two_fits_cannot_share_a_folder(tmp_path):
    class Second(Callback):
        def on_step(self, fit):
            if fit.step == 2:
                with pytest.raises(tg.ConfigError, match="another fit"):
                    small_ranker(steps=2).fit(small_graph(), checkpoint_dir=tmp_path, verbose=False)
                fit.stop("seen")

    r = small_ranker(steps=5)
    assert (
        r.fit(small_graph(), callbacks=[Second()], checkpoint_dir=tmp_path, verbose=False).history_.stopped
        == "seen"
    )
    with pytest.raises(tg.CheckpointError, match="belongs to another fit"):  # it is free again
        small_ranker(steps=2).fit(small_graph(), checkpoint_dir=tmp_path, verbose=False)
