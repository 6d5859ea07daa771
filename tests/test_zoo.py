"""The zoo of programs: names, splits by group, the same arguments every time, finite outputs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from refusals import refuses

jax = pytest.importorskip("jax", reason="the programs of the zoo need jax")

from tpugraphs.errors import ConfigError  # noqa: E402
from tpugraphs.xla import zoo  # noqa: E402
from tpugraphs.xla.zoo import registry  # noqa: E402

ALL = zoo.programs()
FAMILIES = zoo.families()
LARGEST = (8 << 20, 8 << 20, 24 << 20, 256 << 20)  # bytes of the arguments


def named(program):
    return program.name


def test_there_are_enough_of_them():
    real = [family for family in FAMILIES.values() if family.group != "composed"]
    assert len(real) >= 24 and sum(len(family.sizes) for family in real) >= 72
    assert all(len(family.sizes) == 4 for family in FAMILIES.values())  # two small, about 5 ms, about 50 ms
    assert len({program.name for program in ALL}) == len(ALL)
    assert "encoder-block.2" in {program.name for program in ALL}


def test_each_split_has_its_share_of_families():
    share = Counter(family.split for family in FAMILIES.values() if family.group != "composed")
    assert 0.5 < share["train"] / share.total() < 0.65
    assert share["valid"] / share.total() > 0.15 and share["test"] / share.total() > 0.15
    assert set(share) == {"train", "valid", "test"} and zoo.GROUPS["composed"] == "train"


def test_a_group_of_families_is_in_one_split():
    assert {family.group for family in FAMILIES.values()} == set(zoo.GROUPS)
    for program in ALL:
        assert program.split == zoo.GROUPS[FAMILIES[program.family].group]
    parts = [zoo.programs(split=split) for split in ("train", "valid", "test")]
    assert sorted(map(named, sum(parts, ()))) == sorted(map(named, ALL))


def test_programs_are_chosen_by_split_and_family():
    assert [p.name for p in zoo.programs(family="lstm")] == ["lstm.0", "lstm.1", "lstm.2", "lstm.3"]
    assert zoo.programs(split="test", family="lstm") == ()
    refuses(lambda: zoo.programs(split="tset"), ConfigError, "train, valid, test", "'tset'")
    refuses(lambda: zoo.programs(family="encoder"), ConfigError, "encoder-block", "'encoder'")


def test_a_name_is_taken_once_and_a_group_is_in_the_table():
    before = zoo.families()
    for name, group in (("mlp", "perceptron"), ("another", "unheard of")):
        with pytest.raises(ConfigError, match=name):
            registry.family(name, group, {})(before["mlp"].make)
    assert zoo.families() == before


def test_a_program_crosses_to_another_process():
    program = ALL[3]
    again = pickle.loads(pickle.dumps(program))
    assert again == program and hash(again) == hash(program) and again.name == program.name


@pytest.mark.slow
def test_every_program_is_a_function_of_arrays_and_no_two_are_the_same():
    """Not the same text of jaxpr: no size stands twice, no family under two names."""
    texts = {}
    for program in ALL:
        fn, args = program.build()
        assert all(type(a) is np.ndarray and a.dtype in (np.float32, np.int32) for a in args), program
        if program.size < 3:  # the largest are made by the same lines
            pairs = zip(args, program.build()[1], strict=True)
            assert all(a.tobytes() == b.tobytes() and a.shape == b.shape for a, b in pairs), program
        assert (
            all(np.isfinite(a).all() for a in args) and sum(a.nbytes for a in args) < LARGEST[program.size]
        ), program
        traced = jax.make_jaxpr(fn)(*args)
        outputs = traced.out_avals
        assert outputs and all(o.dtype in (np.float32, np.int32) and 0 not in o.shape for o in outputs), (
            program
        )
        assert texts.setdefault(str(traced), program) is program


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_outputs_are_finite_and_as_good_as_in_float64(name):
    """Layouts and options change the rounding: a program whose outputs hang on it could not be checked."""
    program = min(zoo.programs(family=name), key=lambda p: sum(a.nbytes for a in p.build()[1]))
    fn, args = program.build()
    run = jax.jit(fn, compiler_options={"xla_backend_optimization_level": 0})  # compiles in half the time
    single = jax.tree.leaves(run(*args))
    with jax.enable_x64(True):
        double = jax.tree.leaves(run(*(a.astype(np.float64) if a.dtype == np.float32 else a for a in args)))
    for found, wanted in zip(single, double, strict=True):
        found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
        assert np.isfinite(found).all() and 1e-5 < np.sqrt(np.mean(wanted**2)) < 1e2
        assert np.linalg.norm(found - wanted) < 1e-4 * np.linalg.norm(wanted)


def test_the_package_does_not_load_jax():
    code = "import sys, tpugraphs; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ)).returncode == 0
