"""What speaks against a result, as an object: kind, finding, remedy and what measured it.

Every kind has a code in :data:`CODES`, and is explained in ``docs/howto/diagnostics.md``.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pymc_tempering.errors import TemperingWarning

__all__ = ["CODES", "Diagnostic", "Kind", "warn_of"]


class Kind(NamedTuple):
    """One kind of diagnostic.

    Attributes
    ----------
    name : str
        As users read it, in front of what was found.
    meaning : str
        In one line.
    lasting : bool
        Whether every later estimate from the stored draws repeats it: what concerns the model,
        which is then no longer at hand, or what the draws alone do not show.
    is_cause : bool
        Whether other diagnostics follow from it: it comes first.
    mass_missing : bool
        Whether log Z may lack the mass of a mode, of which its standard error knows nothing.
    of_comparison : bool
        Whether it speaks against no result by itself, but against comparing it with others.
    refuses : bool
        Whether it leaves nothing of the estimate, which is then nan.
    """

    name: str
    meaning: str
    lasting: bool = False
    is_cause: bool = False
    mass_missing: bool = False
    of_comparison: bool = False
    refuses: bool = False


CODES: dict[str, Kind] = {
    "too_few_effective_draws": Kind(
        "too few effective draws", "the error itself rests on too few independent numbers"
    ),
    "chains_disagree": Kind("chains disagree", "log Z of the chains differs by more than errors"),
    "chains_differ": Kind("chains differ", "the chains differ in the posterior they found"),
    "no_overlap": Kind("no overlap", "neighbouring densities share no draws", refuses=True),
    "above_likelihood": Kind(
        "above the largest likelihood",
        "log Z exceeds every log likelihood, which it cannot",
        lasting=True,
        refuses=True,
    ),
    "target_se_not_reached": Kind("target_se not reached", "more chains or draws are needed"),
    "max_gradients_reached": Kind(
        "max_gradients reached", "the run ended before it had what was asked for", True
    ),
    "interrupted": Kind("interrupted", "the run has fewer draws than were asked for", True),
    "target_zero_on_base": Kind(
        "target is zero on part of the base", "draws from the base have no density"
    ),
    "no_base_overlap": Kind(
        "base does not cover the posterior", "draws lie where the base has no density"
    ),
    "gradient_not_finite": Kind(
        "gradient is not finite", "moves go without a gradient where the density is finite"
    ),
    "density_infinite": Kind(
        "density is infinite", "points of infinite density count as zero density"
    ),
    "warned_by_earlier_version": Kind(
        "warned by an earlier version", "the run was stored with warnings as one text", True
    ),
    "rounding_noise": Kind(
        "rounding noise",
        "draws lie where the density is the rounding of larger numbers: there is no estimate",
        lasting=True,
        is_cause=True,
        refuses=True,
    ),
    "improper_priors": Kind("improper priors", "log Z is no marginal likelihood", True),
    "divergent_integral": Kind(
        "posterior without end",
        "the posterior has no finite integral: log Z is infinite",
        lasting=True,
        is_cause=True,
    ),
    "heavy_tails": Kind("heavy tails", "draws fall off like a power: moves hardly go there", True),
    "power_likelihood": Kind("power likelihood", "the likelihood is raised to a power", True),
    "ordered_variables": Kind("ordered variables", "the prior lacks mass, as log k!", True),
    "extremely_wide_priors": Kind(
        "extremely wide priors",
        "log Z is mostly about the width of a prior",
        lasting=True,
        of_comparison=True,
    ),
    "no_round_trips": Kind("no round trips", "nothing went from base to target and back"),
    "modes_unseen": Kind(
        "modes unseen", "the search for modes found many once, so not all", mass_missing=True
    ),
    "legs_disagree": Kind("legs disagree", "two bases of one run give different log Z"),
    "mode_out_of_reach": Kind(
        "mode out of reach", "no draw comes from a mode that was found", mass_missing=True
    ),
    "known_mass_missing": Kind(
        "known mass missing",
        "log Z is less than the mass of the modes that were found",
        mass_missing=True,
    ),
    "swap_rate_near_zero": Kind("swap rate near zero", "two levels exchange no replicas"),
    "pareto_k_high": Kind("Pareto k above 0.7", "importance weights have heavy tails"),
    "few_tempered_restarts": Kind(
        "few tempered restarts", "the recorded replica was hardly renewed from the base"
    ),
    "mode_hardly_reached": Kind(
        "mode hardly reached", "few arrivals from the base in one of two groups of draws"
    ),
    "beta_hardly_visits": Kind(
        "beta hardly visits part of its range", "the bias does not balance the ladder"
    ),
    "levels_hardly_visited": Kind(
        "levels hardly visited", "the level weights do not balance the ladder"
    ),
    "few_particles_hold_weight": Kind(
        "few particles hold the weight", "forward annealing rests on a handful of particles"
    ),
    "bounds_far_apart": Kind("bounds far apart", "forward and reverse annealing do not meet"),
    "bounds_crossed": Kind("bounds crossed", "reverse particles missed part of the posterior"),
    "too_few_particles": Kind("too few particles", "the tail of the weights cannot be judged"),
    "few_starting_draws": Kind("few starting draws", "reverse particles share their starts"),
    "particles_hardly_accepted": Kind(
        "particles hardly accepted", "new particles hardly replace the current one"
    ),
    "halves_disagree": Kind("halves disagree", "log Z of the halves of the chains differs"),
    "few_weights": Kind("few weights", "posterior draws rest on few tempered ones"),
    "divergences": Kind("divergences", "NUTS diverged in the tempered model"),
    "small_support": Kind("small support", "the target is zero on nearly all of the base"),
    "base_not_recovered": Kind(
        "base not recovered", "draws at beta = 0 miss the known mean of the base"
    ),
    "modes_not_in_every_chain": Kind(
        "modes not in every chain", "shares of modes say where chains started"
    ),
    "mode_in_pieces": Kind("mode in pieces", "a mode has a gap with no draws near its mean"),
    "exchangeable_entries": Kind(
        "exchangeable entries", "orders of the labels overlap, and could not be parted"
    ),
    "weights_collapse": Kind("weights collapse", "no draws where the changed posterior is"),
    "heavy_tailed_weights": Kind("heavy-tailed weights", "weights of draws have no variance"),
    "prior_mass_out_of_reach": Kind(
        "prior mass out of reach", "an alternative has prior mass where no draw can be"
    ),
    "data_not_compared": Kind(
        "data not compared", "models whose likelihood is a potential may be of different data"
    ),
    "doubtful_evidence": Kind("doubtful evidence", "weights of models rest on such an estimate"),
}
"""Every kind of diagnostic there is, by its code."""


@dataclass(frozen=True)
class Diagnostic:
    """Something that speaks against a result.

    Its ``str`` is the sentence that is printed and warned with.

    Parameters
    ----------
    code : str
        Which kind: a key of :data:`CODES`.
    text : str
        What was found, with figures.
    remedy : str
        What to do.
    measured : mapping of str to float, str or list of these
        What it was concluded from: names of statistics or estimators and their values. Names of
        the group ``tempering`` where it is there too; ``chain`` says which chains are meant.

    Examples
    --------
    >>> diagnostic = Diagnostic("no_round_trips", "in chains [2] none came back.", "Raise `tune`.",
    ...               {"n_round_trips": [0.0], "chain": [2]})
    >>> print(diagnostic)
    no round trips: in chains [2] none came back. Raise `tune`.
    >>> diagnostic.measured["n_round_trips"]
    [0.0]
    """

    code: str
    text: str
    remedy: str
    # a mapping has no hash
    measured: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Which kind, in words; made from the code where a later version knows more kinds."""
        kind = CODES.get(self.code)
        return self.code.replace("_", " ") if kind is None else kind.name

    @property
    def lasting(self) -> bool:
        """Whether it concerns the model rather than the run."""
        return self.code in CODES and CODES[self.code].lasting

    @property
    def is_cause(self) -> bool:
        """Whether other diagnostics of the same estimate follow from it."""
        return self.code in CODES and CODES[self.code].is_cause

    @property
    def mass_missing(self) -> bool:
        """Whether log Z may lack the mass of a mode."""
        return self.code in CODES and CODES[self.code].mass_missing

    @property
    def of_comparison(self) -> bool:
        """Whether it speaks against comparisons alone."""
        return self.code in CODES and CODES[self.code].of_comparison

    @property
    def refuses(self) -> bool:
        """Whether it leaves nothing of the estimate."""
        return self.code in CODES and CODES[self.code].refuses

    def __str__(self) -> str:
        return f"{self.name}: {self.text} {self.remedy}"


def warn_of(diagnostics: Iterable[Diagnostic], *, outwards: int = 0) -> None:
    """Warn of each diagnostic, as if the caller of the caller did.

    Parameters
    ----------
    diagnostics : iterable of Diagnostic
    outwards : int, default 0
        Callers more to go outwards.

    Warns
    -----
    TemperingWarning
    """
    for diagnostic in diagnostics:
        warnings.warn(TemperingWarning(diagnostic), stacklevel=3 + outwards)
