"""What decides the draws of a run, as plain values that can be stored and compared."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.model.identity import Identity
from pymc_tempering.references.own import is_reference
from pymc_tempering.results.datatree import group_of

_IDENTITY = "identity"
_PACKAGES = ("pymc_tempering", "pymc", "pytensor", "numba", "numpy")

_NO_MATTER = {
    "blas_cores", "callback", "compute_convergence_checks", "discard_tuned_samples",
    "idata_kwargs", "keep_warning_stat", "mp_ctx", "progressbar_theme", "quiet", "trace",
    "var_names",
}  # fmt: skip
"""Options of ``pm.sample`` that no draw depends on."""


def describe(
    model: pm.Model,
    step: str,
    identity: Identity,
    seed: Any,
    options: Mapping[str, Any],
    run: Mapping[str, Any],
    coordinates: str = "",
) -> dict[str, Any]:
    """Describe a run.

    ``coordinates`` is the digest of those in which chains are stored, empty for the model's own: a
    map is fitted anew where a run is continued, and on another processor it is another one.
    """
    given = {name: _plain(value) for name, value in sorted(options.items())
             if value is not None and name not in _NO_MATTER}  # fmt: skip
    if coordinates:
        given["coordinates"] = coordinates
    settings = {name: run[name] for name in ("draws", "tune", "chains", "target_se") if name in run}
    if run.get("budget") is not None:
        settings["max_gradients"] = run["budget"].most
    return {
        "versions": {name: version(name) for name in _PACKAGES},
        "model": {
            "variables": [
                f"{rv.name} of {type(rv.owner.op).__name__.removesuffix('RV')} and shape "
                f"{rv.type.shape}"
                for rv in model.free_RVs
            ],
            _IDENTITY: identity.to_json(),
        },
        "step": step,
        "settings": settings | {"random_seed": seed},
        "options": given,
    }


def differences(kept: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say how two descriptions differ, an entry for each value.

    Examples
    --------
    >>> differences({"settings": {"draws": 10}}, {"settings": {"draws": 20, "tune": 5}})
    ['settings: draws is 20, was 10', 'settings: tune is 5, was not given']
    """
    before, after = dict(_flat(kept)), dict(_flat(json.loads(json.dumps(now))))
    known = f"model: {_IDENTITY}"
    old, new = (Identity.from_json(values.pop(known, None)) for values in (before, after))
    found = [] if old is None or new is None else [f"{p} changed" for p in old.changes(new)]
    for name in dict.fromkeys([*before, *after]):
        was, is_now = before.get(name, "not given"), after.get(name, "not given")
        if was != is_now:
            found.append(f"{name} is {_short(is_now)}, was {_short(was)}")
    return found


def plain_seed(seed: Any) -> Any:
    """Give a seed as a value that can be stored, and a digest of one that cannot.

    Examples
    --------
    >>> plain_seed(np.array([1, 2])), plain_seed(np.int64(3))
    ([1, 2], 3)
    >>> plain_seed(np.random.default_rng(1)) == plain_seed(np.random.default_rng(2))
    False
    """
    if isinstance(seed, np.integer | np.ndarray):
        return seed.tolist()
    if isinstance(seed, list | tuple):
        return [int(entry) for entry in seed]
    if isinstance(seed, np.random.Generator):
        state = seed.bit_generator.state
    elif isinstance(seed, np.random.BitGenerator | np.random.SeedSequence):
        state = seed.state
    else:
        return seed
    return f"{type(seed).__name__} in the state {_digest(repr(state).encode())}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Options as plain values; large ones as digests, as only equality is asked for."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, xr.DataTree):
        value = {n: values.values for n, values in group_of(value, "posterior").data_vars.items()}
    if isinstance(value, Mapping):
        return {str(name): _plain(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        small = array.size <= 8 and array.dtype.kind in "biuf"
        kind = f"{array.dtype} {array.shape}"
        return array.tolist() if small else f"array {kind} {_digest(array.tobytes())}"
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    # the repr may have an address
    known = {"kind": type(value).__name__}
    if is_dataclass(value) and not isinstance(value, type):
        known |= {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if is_reference(value) and not isinstance(value, GaussianBase):
        draws = np.asarray(value.draw(np.random.default_rng(0), 3))
        known["draws"] = _digest(draws.tobytes())
    return known


def _flat(tree: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{at}{name}: ")
        else:
            yield f"{at}{name}", value


def _short(value: Any) -> str:
    text = value if value == "not given" else repr(value)
    return text if len(text) <= 70 else f"{text[:70]}..."
