"""What may be exchanged or turned in a model, by names and shapes."""

import numpy as np
import pymc as pm
import pytest

from pymc_tempering.model.point import PointMap
from pymc_tempering.model.symmetries import MOST_LABELS, MOST_TRIED, Symmetries


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
