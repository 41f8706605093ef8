"""The generator that all chains of a run derive, each from its own."""

import pickle

import numpy as np
import pymc as pm
import pytest

from pymc_tempering.model.compile import compile_density
from pymc_tempering.references import prepare
from pymc_tempering.references.prepare import shared_generator


def first(rng):
    return shared_generator(rng).random()


def test_every_chain_derives_the_same():
    root = np.random.default_rng(5)
    expected = first(root)
    chains = root.spawn(3)
    assert {first(rng) for rng in chains} == {expected}
    # later chains of the same generator, in another process, and after draws
    assert first(root.spawn(1)[0]) == expected
    assert first(pickle.loads(pickle.dumps(chains[1]))) == expected
    chains[0].random(10)
    assert first(chains[0]) == expected
    assert expected not in [rng.random() for rng in np.random.default_rng(5).spawn(3)]
    assert first(np.random.default_rng(6)) != expected


def test_runs_seeded_from_one_generator_differ():
    one, other = np.random.default_rng(5).spawn(2)
    assert first(one.spawn(2)[0]) == first(one.spawn(2)[1])
    assert first(one.spawn(1)[0]) != first(other.spawn(1)[0])


@pytest.mark.parametrize(
    "bits",
    [lambda s: np.random.Philox(key=s), lambda s: np.random.RandomState(s)._bit_generator],
    ids=["philox", "legacy"],
)
def test_bit_generators_without_a_seed_sequence(bits):
    rng = np.random.Generator(bits(5))
    assert first(rng) == first(rng) == first(np.random.Generator(bits(5)))
    assert first(rng) != first(np.random.Generator(bits(6)))
    # the chain's own numbers are as they were
    assert rng.random() == np.random.Generator(bits(5)).random()


def test_images_of_modes_are_those_of_the_model(monkeypatch):
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    density = compile_density(model)
    taken = {}
    monkeypatch.setattr(prepare, "find_modes", lambda *given, **options: taken.update(options))
    prepare.prepare(density, density.start, np.random.default_rng(1))
    assert [2.0, 1.0] in taken["images"](np.array([1.0, 2.0])).tolist()
