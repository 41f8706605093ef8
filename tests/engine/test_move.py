"""Settings of explorers: what their declaration bounds is refused before anything is sampled."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.engine.explorers.explore import EXPLORERS
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.errors import OptionError


@dataclass(frozen=True)
class Walk(ExplorerSettings):
    """What the author of an explorer writes."""

    move: ClassVar[None] = None
    aim: float = 0.3
    length: float = 1.0
    n_steps: int = 5
    n_rests: int = field(default=0, metadata={"least": 0})


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        (Walk, {"aim": 0}, "`Walk.aim` is 0; expected a number between 0 and 1"),
        (Walk, {"aim": 1.0}, "between 0 and 1"),
        (Walk, {"length": 0.0}, "`Walk.length` is 0.0; expected a positive finite number"),
        (Walk, {"length": np.inf}, "a positive finite number"),
        (Walk, {"length": np.nan}, "a positive finite number"),
        (Walk, {"n_steps": 0}, "`Walk.n_steps` is 0; expected a whole number of at least 1"),
        (Walk, {"n_steps": 2.5}, "a whole number"),
        (Walk, {"n_steps": True}, "a whole number"),
        (Walk, {"n_rests": -1}, "`Walk.n_rests` is -1; expected a whole number of at least 0"),
        (Slice, {"max_expansions": -1}, "Slice.max_expansions.*at least 0"),
        (Slice, {"n_updates": -1}, "Slice.n_updates.*at least 0"),
        (Hamiltonian, {"max_steps": 0}, "Hamiltonian.max_steps.*at least 1"),
        (Hamiltonian, {"trajectory_length": -1.5}, "Hamiltonian.trajectory_length.*positive"),
    ],
)
def test_settings_out_of_bounds_are_refused_by_name(settings, given, expected):
    with pytest.raises(OptionError, match=expected):
        settings(**given)
    with pytest.raises(OptionError, match=expected):
        replace(settings(), **given)


@pytest.mark.parametrize("settings", [Walk, *EXPLORERS.values()])
def test_defaults_are_in_bounds_and_packed_in_order(settings):
    packed = settings().packed
    assert 0.0 < packed.aim < 1.0
    assert packed.options.dtype == np.float64
    assert Walk(0.2, 2.0, 3, 4).packed.options.tolist() == [2.0, 3.0, 4.0]
    assert Slice(max_expansions=0).packed.options.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("explorer", [Slice, 7, ["slice"]])
def test_steps_refuse_what_is_no_explorer(explorer):
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(OptionError, match="Unknown explorer"):
        pm_temper.ParallelTempering(model=model, explorer=explorer)
