"""The statistics that tempered runs record, each declared once.

What PyMC is told before a run, what a step gives with every draw and what stands in its place where
a method has no value yet, the labels of results and their reference page are made from this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.types import FloatArray

N_START_COUNTS = 8
"""Modes whose number of starts is stored."""

N_WELL_FITTED = 8
"""Modes of known mass whose draws are watched for, the heaviest."""

N_COMPONENTS = 16
"""Components of a mixture whose arrivals are stored; the last stands for all others, too."""

STEP_METHODS = tuple(row.name for row in METHODS.values() if row.step is not None)
_COUPLED = ("gibbs_ct", "st")

type Dims = tuple[str, ...]


@dataclass(frozen=True)
class Statistic:
    """One statistic of every draw.

    ``methods`` has for each method that records it the dimensions after chain and draw, of which
    the step gives the lengths; each is a beginning of the longest. ``fill`` stands for what is not
    known, as during a pilot run, and beyond the levels in use. ``stored`` is the name that PyMC
    gives it in a result, where that is another. A vector with ``entries`` holds several quantities:
    steps give them, and estimates read them, by their own names.
    """

    meaning: str
    methods: Mapping[str, Dims]
    unit: str = ""
    dtype: type = np.float64
    fill: Any = np.nan
    stored: str = ""
    entries: Mapping[str, "Statistic"] = field(default_factory=dict)

    @property
    def dims(self) -> Dims:
        """Dimensions after chain and draw, of the method with most."""
        return max(self.methods.values(), key=len)


def _scalar(*methods: str) -> dict[str, Dims]:
    return dict.fromkeys(methods, ())


_ALL = _scalar(*STEP_METHODS)


def _count(meaning: str, methods: Mapping[str, Dims] = _ALL, fill: int = -1) -> Statistic:
    return Statistic(meaning, methods, dtype=np.int64, fill=fill)


def _flag(meaning: str, methods: Mapping[str, Dims] = _ALL) -> Statistic:
    return Statistic(meaning, methods, dtype=np.bool_, fill=False)


def _vector(name: str, meaning: str, entries: Mapping[str, Statistic]) -> Statistic:
    methods: dict[str, Dims] = {}
    for entry in entries.values():
        for method, dims in entry.methods.items():
            methods[method] = (f"{name}_entry", *dims)
    whole = all(entry.dtype is np.int64 for entry in entries.values())
    dtype, fill = (np.int64, -1) if whole else (np.float64, np.nan)
    meaning = f"{meaning}: {'; '.join(f'{n}, {e.meaning}' for n, e in entries.items())}"
    return Statistic(meaning, methods, dtype=dtype, fill=fill, entries=entries)


STATISTICS: dict[str, Statistic] = {
    METHOD_CODE: _count("which method made the draw", _scalar(*STEP_METHODS, "joint_ct")),
    "delta": Statistic(
        "log_target - log_base of the replica at each level",
        {"pt": ("scan", "level"), "gibbs_ct": ("scan",), "st": ("scan",)},
        "nats",
    ),
    "target_delta": Statistic(
        "delta of the replica at beta = 1", dict.fromkeys(_COUPLED, ("scan",)), "nats"
    ),
    "base_delta": Statistic("delta of a draw from the base", {"gibbs_ct": ("scan",)}, "nats"),
    "beta": Statistic(
        "inverse temperature of the tempered replica after each scan",
        dict.fromkeys(_COUPLED, ("scan",)),
    ),
    "log_weight_forward": Statistic(
        "log weight of a particle annealed to beta = 1", {"hais": ("scan",)}, "nats"
    ),
    "log_weight_reverse": Statistic(
        "log weight of the run back from the draw", {"hais": ("scan",)}, "nats"
    ),
    "accepted": _flag("whether the new particle replaced the draw", {"hais": ("scan",)}),
    "betas": Statistic(
        "inverse temperatures; nan beyond the levels in use",
        dict.fromkeys(("pt", "st", "hais"), ("level",)),
    ),
    "log_level_weights": Statistic(
        "log r_k - log of the assumed z(beta_k)", {"st": ("level",)}, "nats"
    ),
    "knots": Statistic(
        "inverse temperatures between which the bias is linear", {"gibbs_ct": ("knot",)}
    ),
    "bias": Statistic("bias c(beta) at the knots", {"gibbs_ct": ("knot",)}, "nats"),
    "swap_acceptance_rate": Statistic(
        "mean swap probability of neighbouring levels", {"pt": ("pair",)}
    ),
    "acceptance_rate": Statistic(
        "mean acceptance probability of the moves",
        dict.fromkeys(("pt", "st", "hais"), ("level",)) | _scalar("gibbs_ct"),
    ),
    "exchange_rate": Statistic(
        "acceptance rate of exchanges with the replica at beta = 1", _scalar(*_COUPLED)
    ),
    "step_size": Statistic(
        "step size of the moves", dict.fromkeys(STEP_METHODS, ("level",)), "base sd"
    ),
    "replica": _count("replica at each level after the draw; -1 beyond", {"pt": ("level",)}),
    "global_barrier": Statistic("Lambda, the sum of the swap rejection rates", _ALL),
    "n_round_trips": _count(
        "journeys base to target and back completed in the draw", _scalar("pt", *_COUPLED)
    ),
    "n_tempered_restarts": _count(
        "arrivals at the target from the base in the draw", _scalar("pt", *_COUPLED)
    ),
    "tempered_restart": _flag(
        "whether the draw is of a replica that came from the base while it was made",
        _scalar("pt", *_COUPLED),
    ),
    "n_gradients": _count("gradients of the model, one or more for each evaluation of the density"),
    "so_far": _vector(
        "so_far",
        "counts up to the draw",
        {
            "gradients_so_far": _count(
                "evaluations since the chain began, those of tuning included"
            ),
            "round_trips_so_far": _count("round trips since tuning ended"),
            "restarts_so_far": _count("tempered restarts since tuning ended"),
            "divergences_so_far": _count("draws with `diverging` since tuning ended"),
        },
    ),
    "n_divergences": _count("trajectories with an energy error above 1000 nats"),
    "n_zero_density_at": _count(
        "trajectories that ran into zero density, at the nearest level; at level 0 also draws from "
        "the base where the target is zero",
        dict.fromkeys(STEP_METHODS, ("level",)),
    ),
    "n_bad_density": _vector(
        "n_bad_density",
        "points without a usable density",
        {
            "n_infinite_density": _count("where the log density was +inf; they count as zero"),
            "n_nan_density": _count("where it was not a number; they count as zero"),
            "n_bad_gradients": _count("of finite density whose gradient was not finite"),
        },
    ),
    "n_base": _vector(
        "n_base",
        "draws from the base",
        {
            "n_base_draws": _count("all of them", _scalar(*_COUPLED)),
            "n_base_support": _count("those where the target is positive", _scalar(*_COUPLED)),
        },
    ),
    "components": _vector(
        "components",
        "of each component of a mixture that the path starts from, the wide one first",
        {
            "component_arrivals": _count(
                "arrivals at the target in the draw", {"pt": ("component",)}
            ),
            "component_scans": _count(
                "scans in which the replica at the target had come from it", {"pt": ("component",)}
            ),
            "component_excess": Statistic(
                "draws of the base that were of it, minus what the weights promise; nan where the "
                "base is no mixture",
                {"pt": ("component",)},
            ),
        },
    ),
    "tuned": _vector(
        "tuned",
        "what tuning settled",
        {
            "n_components": _count(
                "local fits in the mixture that the path starts from; 0 for any other base",
                _scalar("pt"),
                fill=0,
            ),
            "log_z_before": Statistic(
                "rough log Z from the wide Gaussian of tuning, where a mixture took over (nats)",
                _scalar("pt"),
            ),
            "log_z_se_before": Statistic("its error (nats)", _scalar("pt")),
            "scans_requested": _count(
                "scans of each draw that the requested error takes, or that were requested",
                _scalar("pt"),
            ),
            "n_levels": _count(
                "intermediate distributions of an annealing run", _scalar("hais"), fill=0
            ),
        },
    ),
    "n_unreached_modes": _count("modes that local fits found, and no draw comes from", fill=0),
    "log_mass_unvisited": Statistic(
        "log of the mass of the heaviest well fitted modes; NaN of those that had a draw by then",
        dict.fromkeys(STEP_METHODS, ("well_fitted_mode",)),
        "nats",
    ),
    "search": Statistic(
        "what the search for modes did, once for all chains; the entries of SEARCH",
        dict.fromkeys(STEP_METHODS, ("search_entry",)),
    ),
    "diverging": _flag("whether over a tenth of the trajectories at beta = 1 diverged"),
    "base_id": _count("identity of the base in use"),
    "model_logp": Statistic(
        "log density of the recorded draw, Jacobian included", _ALL, "nats", stored="lp"
    ),
    "perf_counter_diff": Statistic("wall time of the draw", _ALL, "s"),
}
"""Statistics by the names that steps give them; leading dimensions chain and draw."""


class SearchEntry(NamedTuple):
    """One entry of the statistic ``search``: numbers, or counts of which -1 is not known."""

    meaning: str
    unit: str = "count"
    dim: str = ""
    size: int = 1
    """How many numbers it has."""


SEARCH: dict[str, SearchEntry] = {
    "gradients": SearchEntry("evaluations of the search for modes, once for all chains"),
    "starts": SearchEntry("starts of the search for modes"),
    "modes": SearchEntry("distinct places that these starts led to"),
    "left_out": SearchEntry("of these, places without mass, or without a fit"),
    "images": SearchEntry("further places, from images or surroundings of these"),
    "mass_once": SearchEntry(
        "share of the fits' mass in modes that one of four searches found", ""
    ),
    "funnel_depth": SearchEntry("log of the typical local scale over a small one", "nats"),
    "rise_along": SearchEntry("value along which the mass rises without end; -1 for none"),
    "rise": SearchEntry("by how much, from 10 to 20 of its standard deviations away", "nats"),
    "rise_beyond": SearchEntry("by how much more within as many", "nats"),
    "log_mass": SearchEntry("log of the mass of the well fitted modes, by importance", "nats"),
    "log_mass_se": SearchEntry("its error", "nats"),
    "start_counts": SearchEntry(
        "starts that led to each of the best modes", dim="found_mode", size=N_START_COUNTS
    ),
    "found_by": SearchEntry(
        "of four searches those that found each of these", dim="found_mode", size=N_START_COUNTS
    ),
    "planted": SearchEntry(
        "probability that one more mode would have been found: of 1, 5 and 25 % of the mass, as "
        "wide as a known one, half, and a quarter as wide",
        "",
        "planted_mode",
        size=9,  # three widths and three masses
    ),
}
"""Entries of the statistic ``search``, in the order in which it holds them."""

_PLACES = {
    name: slice(end - entry.size, end)
    for (name, entry), end in zip(
        SEARCH.items(), accumulate(entry.size for entry in SEARCH.values()), strict=True
    )
}

LABELS: dict[str, list[str]] = {
    "search_entry": [
        name if entry.size == 1 else f"{name}_{i}"
        for name, entry in SEARCH.items()
        for i in range(entry.size)
    ]
} | {f"{name}_entry": list(entry.entries) for name, entry in STATISTICS.items() if entry.entries}
"""Coordinate labels of dimensions whose entries have names."""


def pack_search(values: Mapping[str, Any]) -> FloatArray:
    """Make the statistic ``search`` from a number or short array for each entry that is known.

    Examples
    --------
    >>> packed = pack_search({"starts": 40, "start_counts": [30, 10]})
    >>> read_search({"search": packed[None, None]})["search_start_counts"].tolist()
    [[30, 10, -1, -1, -1, -1, -1, -1]]
    """
    packed = np.full(len(LABELS["search_entry"]), np.nan)
    for name, value in values.items():
        entry = np.atleast_1d(value)
        packed[_PLACES[name]][: entry.size] = entry
    return packed


def read_search(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Read the statistic ``search`` (chain, draw, entry) back; empty where it was not recorded.

    For each entry of :data:`SEARCH` there is ``search_<name>``, (chain,) or (chain, size); counts
    are whole numbers, -1 where they are not known.
    """
    if "search" not in statistics:
        return {}
    packed = statistics["search"][:, 0]
    arrays = {}
    for name, entry in SEARCH.items():
        values = packed[:, _PLACES[name]]
        if entry.unit == "count":
            values = np.where(np.isnan(values), -1, values).astype(np.int64)
        arrays[f"search_{name}"] = values[:, 0] if entry.size == 1 else values
    return arrays


def statistics_of(method: str) -> dict[str, Statistic]:
    """Statistics that a method records.

    Examples
    --------
    >>> "swap_acceptance_rate" in statistics_of("pt"), "bias" in statistics_of("pt")
    (True, False)
    """
    return {name: entry for name, entry in STATISTICS.items() if method in entry.methods}


def unpacked(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Give the entries of vectors by their own names, shape (chain, draw, ...); the rest as it is.

    Examples
    --------
    >>> sorted(unpacked({"n_base": np.ones((1, 3, 2), dtype=np.int64)}))
    ['n_base_draws', 'n_base_support']
    """
    arrays: dict[str, FloatArray] = {}
    for name, values in statistics.items():
        entries = STATISTICS[name].entries if name in STATISTICS else {}
        if not entries:
            arrays[name] = values
        for i, (entry, declared) in enumerate(entries.items()):
            held = values[:, :, i]
            if np.isnan(held).all() and declared.dtype is np.int64:
                continue  # of another method
            if declared.dtype is np.int64:
                held = np.where(np.isnan(held), declared.fill, held).astype(np.int64)
            arrays[entry] = held
    return arrays
