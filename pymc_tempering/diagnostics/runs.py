"""What a stored run says about its sampler, as arrays; nothing here draws."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pymc_tempering.errors import DataError
from pymc_tempering.evidence.reading import check_tree
from pymc_tempering.results.datatree import group_of, read_statistics
from pymc_tempering.types import FloatArray, IntArray


class RoundTrip(NamedTuple):
    """One journey of a replica from base to target and back; indices of recorded draws."""

    replica: int
    start: int
    target: int
    end: int


class InverseTemperatures(NamedTuple):
    """Inverse temperatures that a run visited.

    `beta` (chain, scan); `levels` (chain, level), the schedule where beta moves between levels, nan
    beyond those in use; `knots` (chain, knot) of the bias where beta is continuous; `chains`
    (chain,), their coordinates.
    """

    beta: FloatArray
    levels: FloatArray | None
    knots: FloatArray | None
    chains: IntArray


def inverse_temperatures(idata: Any) -> InverseTemperatures:
    """Read the inverse temperatures of a run of continuous or simulated tempering.

    Of joint continuous tempering `idata` is what ``untemper`` returns. Refused with a DataError are
    runs without an inverse temperature that moves: in parallel tempering every level has its
    replica.
    """
    tree = check_tree(idata)
    statistics = read_statistics(tree)
    if "replica" in statistics:
        raise DataError(
            "In parallel tempering every level holds one replica at all times, so there is no "
            "occupancy to draw. Use `plot_index_process`, which shows how replicas move."
        )
    source = dict(statistics)
    if "beta" not in source:
        dataset = group_of(tree, "tempering")
        # knots of joint continuous tempering are the same for all chains
        source = {str(n): v.values for n, v in dataset.data_vars.items() if n in ("beta", "knots")}
    if "beta" not in source:
        raise DataError(
            f"`sample_stats` has {sorted(statistics)} but not `beta`, which continuous and "
            "simulated tempering record. Pass a run of one of these."
        )
    beta = source["beta"].reshape(len(source["beta"]), -1)
    levels, knots = (
        None if name not in source else source[name][:, 0] if source[name].ndim == 3
        else np.broadcast_to(source[name], (len(beta), source[name].shape[-1]))
        for name in ("betas", "knots")
    )  # fmt: skip
    chains = tree["posterior" if "posterior" in tree.children else "sample_stats"].dataset["chain"]
    return InverseTemperatures(beta, levels, knots, chains.values)


def read_statistic(idata: Any, name: str, *, recorded_by: str) -> FloatArray:
    """Array of one statistic (chain, draw, ...), which the samplers `recorded_by` record."""
    statistics = read_statistics(check_tree(idata))
    if name not in statistics:
        raise DataError(
            f"`sample_stats` has {sorted(statistics)} but not `{name}`, which {recorded_by} "
            "records. Pass the DataTree of such a run."
        )
    return statistics[name]


def levels_of_replicas(replica: ArrayLike) -> IntArray:
    """Level of every replica (draw, replica), from the replica at every level (draw, level).

    Of one chain; -1 beyond the levels in use.

    Examples
    --------
    >>> levels_of_replicas([[2, 0, 1, -1]]).tolist()
    [[1, 2, 0]]
    """
    replica = np.asarray(replica, dtype=np.int64)
    n_levels = int((replica[0] >= 0).sum())
    return np.argsort(replica[:, :n_levels], axis=1, kind="stable")


def visible_round_trips(levels: IntArray) -> list[RoundTrip]:
    """Round trips that show in the recorded draws.

    A trip leaves the base (level 0) for the last time before it reaches the target (the highest
    level), and ends at its next visit to the base. Several scans lie between two draws, so the
    sampler's own count, ``n_round_trips``, is larger.

    Parameters
    ----------
    levels : ndarray of int of shape (n_draws, n_levels)
        Of :func:`levels_of_replicas`.

    Returns
    -------
    list of RoundTrip
        In the order of their ends.

    Examples
    --------
    >>> visible_round_trips(np.array([[0, 1], [0, 1], [1, 0], [0, 1]]))
    [RoundTrip(replica=0, start=1, target=2, end=3)]
    """
    n_draws, n_levels = levels.shape
    trips = []
    for replica in range(n_levels):
        start = target = -1
        for draw in range(n_draws):
            level = levels[draw, replica]
            if level == 0:
                if target >= 0:
                    trips.append(RoundTrip(replica, start, target, draw))
                start, target = draw, -1
            elif level == n_levels - 1 and start >= 0 and target < 0:
                target = draw
    return sorted(trips, key=lambda trip: (trip.end, trip.replica))


def share_of_levels(beta: ArrayLike, betas: ArrayLike) -> FloatArray:
    """Share of scans at each level of a ladder, over an equal share; from the beta of each scan.

    Examples
    --------
    >>> share_of_levels([0.0, 0.0, 0.25, 1.0], [0.0, 0.25, 1.0]).tolist()
    [1.5, 0.75, 0.75]
    """
    betas, beta = np.asarray(betas, dtype=np.float64), np.ravel(beta)
    halfway = 0.5 * (betas[1:] + betas[:-1])
    counts = np.bincount(np.searchsorted(halfway, beta), minlength=betas.size)
    return counts * betas.size / beta.size


def annealing_weights(idata: Any) -> dict[str, FloatArray]:
    """Log weights of a run of HAIS, by direction, all chains together; in nats.

    ``forward`` and, where reverse runs were made, ``reverse``; ``-inf`` for a weight of zero.
    """
    forward = read_statistic(idata, "log_weight_forward", recorded_by="HAIS")
    weights = {"forward": forward.ravel()}
    reverse = read_statistics(idata).get("log_weight_reverse")
    # a run of one direction may record the other as nan
    if reverse is not None and not np.isnan(reverse).all():
        weights["reverse"] = reverse.ravel()
    return {name: values[~np.isnan(values)] for name, values in weights.items()}
