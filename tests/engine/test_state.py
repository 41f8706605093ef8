"""States: plain values out, the same objects back."""

import pickle
from typing import ClassVar

import numpy as np
import pytest

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.state import Stateful, from_plain, to_plain

PLAIN = (np.ndarray, np.generic, bool, int, float, str, type(None))


def is_plain(value):
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_plain(item) for name, item in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return isinstance(value, PLAIN)


def low_rank(rng):
    """Coordinates whose rows are neither standard deviations nor a triangular factor."""
    directions = np.linalg.qr(rng.normal(size=(45, 2)))[0].T
    rows = np.vstack([np.exp(rng.normal(size=45)), directions, [[4.0], [-0.7]] * directions])
    return Coordinates.from_rows(rng.normal(size=45), rows)


@pytest.mark.parametrize(
    "value", [None, True, 3, -2.5, np.inf, "name", np.float64(0.5), np.int64(7), np.bool_(True)]
)
def test_numbers_and_strings_are_themselves(value):
    again = from_plain(to_plain(value))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.zeros((0, 4)), np.array([True, False]), np.array([2, 0, 1]),
     np.array(["a", "bc"])],
)  # fmt: skip
def test_arrays_come_back_as_copies(array):
    plain = to_plain(array)
    again = from_plain(plain)
    for copy in (plain, again):
        np.testing.assert_array_equal(copy, array)
        assert copy.dtype == array.dtype
        assert not np.shares_memory(copy, array)
    assert not np.shares_memory(again, plain)


@pytest.mark.parametrize("log_zeta", [None, -3.25])
@pytest.mark.parametrize("scale", [np.array([0.5, 2.0]), np.array([[1.0, 0.0], [0.3, 2.0]])])
def test_gaussians_keep_their_elbo(scale, log_zeta):
    base = GaussianBase(np.array([1.0, -2.0]), scale, log_zeta)
    plain = to_plain(base)
    assert is_plain(plain)
    again = from_plain(plain)
    assert again == base
    assert again.log_zeta == log_zeta


def test_coordinates_keep_their_rows(rng):
    diagonal = Coordinates.of(GaussianBase(np.zeros(2), np.array([0.5, 2.0])))
    dense = Coordinates.of(GaussianBase(np.zeros(2), np.array([[1.0, 0.0], [0.3, 2.0]])))
    for coordinates in (diagonal, dense, low_rank(rng)):
        plain = to_plain(coordinates)
        assert is_plain(plain)
        again = from_plain(plain)
        np.testing.assert_array_equal(again.rows, coordinates.rows)
        np.testing.assert_array_equal(again.base.mean, coordinates.base.mean)
        assert again.rank == coordinates.rank
        u = rng.normal(size=coordinates.base.dim)
        np.testing.assert_array_equal(again.from_base(u), coordinates.from_base(u))


def test_containers_of_everything(rng):
    base = GaussianBase(np.zeros(2), np.ones(2), 1.5)
    value = {"fits": [base, base], "pair": (1, np.ones(2)), "deep": {"c": low_rank(rng), "n": None}}
    plain = to_plain(value)
    assert is_plain(plain)
    # anything that stores plain values will do
    again = from_plain(pickle.loads(pickle.dumps(plain)))
    assert again["fits"] == [base, base]
    assert again["pair"][0] == 1
    assert isinstance(again["pair"], list)
    np.testing.assert_array_equal(again["deep"]["c"].rows, value["deep"]["c"].rows)


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, lambda: None, b"raw"])
def test_other_types_are_refused(value):
    name = type(value).__name__
    with pytest.raises(TypeError, match=f"A state cannot hold {name}"):
        to_plain(value)
    with pytest.raises(TypeError, match=name):
        to_plain({"deep": [value]})


class Walker(Stateful):
    _changing: ClassVar[tuple[str, ...]] = ("position", "fits", "n")

    def __init__(self, speed):
        self.speed = speed
        self.position = np.zeros(2)
        self.fits = []
        self.n = 0


def test_objects_continue_from_their_state():
    walker = Walker(0.5)
    walker.position += 3.0
    walker.fits.append(GaussianBase(np.zeros(1), np.ones(1), -4.0))
    walker.n = 2
    state = walker.state()
    assert is_plain(state)
    assert set(state) == {"position", "fits", "n"}
    walker.position += 1.0
    other = Walker(9.0).set_state(state)
    assert (other.speed, other.n, other.fits[0].log_zeta) == (9.0, 2, -4.0)
    np.testing.assert_array_equal(other.position, [3.0, 3.0])
    # without the constructor, from the state and what never changes
    restored = Walker.restored(state, speed=0.5)
    restored.position += 1.0
    assert restored.speed == 0.5
    np.testing.assert_array_equal(other.position, [3.0, 3.0])
    np.testing.assert_array_equal(state["position"], [3.0, 3.0])
    assert is_plain(to_plain({"walker": walker}))
    with pytest.raises(KeyError):
        Walker(1.0).set_state({"position": np.zeros(2)})
