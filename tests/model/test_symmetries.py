"""What may be exchanged or turned in a model, by names and shapes."""

import numpy as np
import pymc as pm
import pytest

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.graph import in_python
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.symmetries import MOST_IMAGES, MOST_LABELS, MOST_TRIED, Symmetries


def tried(model):
    """Values of every variable, as lists, in each image of the point 1, 2, 3, ..."""
    points = PointMap.from_model(model)
    images = Symmetries.of(points, model).images(1.0 + np.arange(points.dim))
    ends = np.cumsum(points.sizes)
    return [
        {
            name: image[end - size : end].reshape(shape).tolist()
            for name, shape, size, end in zip(
                points.names, points.shapes, points.sizes, ends, strict=True
            )
        }
        for image in images
    ]


def test_labels_move_together_in_all_variables():
    with pm.Model() as model:
        pm.Gamma("a", 2.0, 1.0, shape=2)
        pm.Gamma("b", 2.0, 1.0, shape=(3, 2))
    found = tried(model)
    assert {"a_log__": [2.0, 1.0], "b_log__": [[4.0, 3.0], [6.0, 5.0], [8.0, 7.0]]} in found
    assert {"a_log__": [1.0, 2.0], "b_log__": [[5.0, 6.0], [3.0, 4.0], [7.0, 8.0]]} in found
    # two labels of one axis, three of the other, and no signs of what is positive
    assert len(found) == 1 + 3


def test_dimensions_tell_axes_of_one_length_apart():
    coords = {"source": range(2), "sensor": range(2)}
    with pm.Model(coords=coords) as model:
        pm.Gamma("a", 2.0, 1.0, dims="source")
        pm.Gamma("b", 2.0, 1.0, dims=("sensor", "source"))
    found = tried(model)
    assert {"a_log__": [2.0, 1.0], "b_log__": [[4.0, 3.0], [6.0, 5.0]]} in found
    assert {"a_log__": [1.0, 2.0], "b_log__": [[5.0, 6.0], [3.0, 4.0]]} in found
    assert len(found) == 2


def test_both_axes_of_a_square_one_each_and_together():
    with pm.Model() as model:
        pm.Gamma("a", 2.0, 1.0, shape=(2, 2))
    rows = [image["a_log__"] for image in tried(model)]
    assert rows == [[[3.0, 4.0], [1.0, 2.0]], [[2.0, 1.0], [4.0, 3.0]], [[4.0, 3.0], [2.0, 1.0]]]


def test_numbered_names():
    with pm.Model() as model:
        pm.Gamma("place_1", 2.0, 1.0)
        pm.Gamma("place_2", 2.0, 1.0)
        pm.Gamma("width1", 2.0, 1.0)
        pm.Gamma("width2", 2.0, 1.0)
        pm.Gamma("other", 2.0, 1.0)
    (image,) = tried(model)
    assert list(image.values()) == [2.0, 1.0, 4.0, 3.0, 5.0]


def test_signs_of_variables_pairs_labels_and_entries():
    with pm.Model() as model:
        pm.Normal("a", shape=2)
        pm.Normal("b")
        pm.HalfNormal("c")
    signs = [np.sign(np.hstack(list(image.values()))).tolist() for image in tried(model)]
    for expected in ([-1, -1, 1, 1], [1, 1, -1, 1], [-1, -1, -1, 1], [-1, 1, 1, 1], [1, -1, 1, 1]):
        assert expected in signs
    assert all(sign[-1] == 1 for sign in signs)


@pytest.mark.parametrize(("n", "expected"), [(MOST_LABELS + 1, 0), (MOST_LABELS, MOST_TRIED)])
def test_units_are_no_labels(n, expected):
    with pm.Model() as model:
        pm.Gamma("unit", 2.0, 1.0, shape=n)
    assert len(tried(model)) == expected


def test_a_model_of_one_positive_value_has_none():
    with pm.Model() as model:
        pm.Gamma("a", 2.0, 1.0)
    assert tried(model) == []


def mixture(k, shift=0.0):
    """Mixture of k Gaussians without an order; a shift of one mean makes its label another."""
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(k))
        mu = pm.Normal("mu", shift * np.eye(k)[0], 3.0)
        sd = pm.HalfNormal("sd", 2.0, shape=k)
        pm.NormalMixture("y", w, mu, sigma=sd, observed=[-2.0, -1.5, 0.3, 3.0, 3.5])
    return model


def orbit_of(model, apart=1.0):
    """Group of exchanges, density, and a place whose entries are so far apart."""
    # evaluated a few hundred times, which takes less than to compile it
    with in_python():
        density = compile_density(model, backend="c")
    mean = density.start + apart * np.arange(density.dim)
    places = GaussianBase(mean, np.full(density.dim, 0.3)).draw(np.random.default_rng(0), 4)
    return Symmetries.of(density.points, model).exchanges(density, places), density, mean


@pytest.mark.parametrize("k", [2, 3, 4])
def test_all_orders_of_the_labels_are_divided_out(k):
    orbit, density, z = orbit_of(mixture(k))
    assert orbit.size == {2: 2, 3: 6, 4: 24}[k]
    values = [density.value_and_grad(image)[0] for image in orbit.images(z)]
    np.testing.assert_allclose(values, values[0])
    assert len(np.unique(orbit.images(z).round(6), axis=0)) == orbit.size
    np.testing.assert_array_equal(orbit.images(z)[0], z)


def test_no_more_images_than_are_worth_it():
    orbit, density, z = orbit_of(mixture(6))
    assert orbit.size == MOST_IMAGES
    values = [density.value_and_grad(image)[0] for image in orbit.images(z)]
    np.testing.assert_allclose(values, values[0])


def test_many_values_have_images_too():
    """For draws; a search that would keep Gaussians of them has a bound of its own."""
    with pm.Model() as model:
        pm.Normal("x", shape=(13, 5))
    assert orbit_of(model)[0].size == MOST_IMAGES


def test_labels_that_differ_are_not_divided_out():
    assert orbit_of(mixture(2, shift=1.0))[0] is None
    # the first of three is unlike the others
    assert orbit_of(mixture(3, shift=1.0))[0].size == 2


def test_entries_of_a_vector_can_be_exchanged_though_no_mode_moves():
    with pm.Model() as model:
        pm.Normal("x", shape=3)
    orbit, _, _ = orbit_of(model)
    assert orbit.size == 6
