"""Targets chosen to make samplers wrong in silence, with exact answers.

``HARD`` lists them by name; each entry builds its target. ``make hard`` runs them all.
"""

from collections.abc import Callable
from functools import partial

from pymc_tempering.testing.hard.disguised import (
    effects_together,
    groups_alike,
    ridges,
    two_scales,
)
from pymc_tempering.testing.hard.edges import (
    circular,
    identical_data,
    nan_gradient,
    random_walk,
    sharp_beta,
    step_likelihood,
    tied_mixture,
)
from pymc_tempering.testing.hard.funnels import (
    cauchy,
    collapsed_hierarchy,
    eight_schools_centred,
    funnel,
    horseshoe_prior,
    steep_banana,
)
from pymc_tempering.testing.hard.mixtures import (
    bananas_and_gaussian,
    far_modes,
    five_modes,
    needles,
    phase_transition,
    spike,
    two_widths,
)
from pymc_tempering.testing.hard.realistic import sensors, spike_and_slab, two_sinusoids
from pymc_tempering.testing.hard.target import HardTarget, Part, Verdict, judge

__all__ = ["HARD", "HardTarget", "Part", "Verdict", "judge"]

HARD: dict[str, Callable[[], HardTarget]] = {
    "two_sinusoids": two_sinusoids,
    "sensors_4": sensors,
    "spike_and_slab_20": spike_and_slab,
    "two_widths_20_0.4": two_widths,
    "two_widths_50_0.5": partial(two_widths, 50, 0.5),
    "two_widths_10_0.4_prior": partial(two_widths, 10, 0.4, prior_sd=3.0),
    "two_widths_20_0.6_prior": partial(two_widths, 20, 0.6, prior_sd=3.0),
    "two_widths_20_0.8_prior": partial(two_widths, 20, 0.8, prior_sd=3.0),
    "two_widths_4_0.3": partial(two_widths, 4, 0.3, 0.5),
    "five_modes_30": five_modes,
    "spike_20": spike,
    "spike_10_centre": partial(spike, 10, 0.1, 0.0),
    "far_modes_20": far_modes,
    "phase_transition_10": phase_transition,
    "bananas_and_gaussian": bananas_and_gaussian,
    "bananas_started_there": partial(bananas_and_gaussian, start_in_bananas=True),
    "needles": needles,
    "nan_gradient": nan_gradient,
    "step_likelihood": step_likelihood,
    "eight_schools_centred": eight_schools_centred,
    "collapsed_hierarchy": collapsed_hierarchy,
    "funnel_30": funnel,
    "horseshoe_prior": horseshoe_prior,
    "cauchy_10": cauchy,
    "steep_banana": steep_banana,
    "circular": circular,
    "sharp_beta": sharp_beta,
    "identical_data": identical_data,
    "tied_mixture": tied_mixture,
    "random_walk_250": random_walk,
    "ridges_10": ridges,
    "two_scales_10": two_scales,
    "groups_alike_12": groups_alike,
    "effects_together_8": effects_together,
}
