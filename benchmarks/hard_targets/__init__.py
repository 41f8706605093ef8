"""Targets chosen to make samplers wrong in silence, with exact answers.

``HARD`` lists them by name; each entry builds its target. ``make hard`` runs them all.
"""

from collections.abc import Callable
from functools import partial

from hard_targets import disguised, edges, funnels, mixtures, realistic
from hard_targets.target import HardTarget, Part, Verdict, judge

__all__ = ["HARD", "HardTarget", "Part", "Verdict", "judge"]

HARD: dict[str, Callable[[], HardTarget]] = {
    "two_sinusoids": realistic.two_sinusoids,
    "sensors_4": realistic.sensors,
    "spike_and_slab_20": realistic.spike_and_slab,
    "two_widths_20_0.4": mixtures.two_widths,
    "two_widths_50_0.5": partial(mixtures.two_widths, 50, 0.5),
    "two_widths_10_0.4_prior": partial(mixtures.two_widths, 10, 0.4, prior_sd=3.0),
    "two_widths_20_0.6_prior": partial(mixtures.two_widths, 20, 0.6, prior_sd=3.0),
    "two_widths_20_0.8_prior": partial(mixtures.two_widths, 20, 0.8, prior_sd=3.0),
    "two_widths_4_0.3": partial(mixtures.two_widths, 4, 0.3, 0.5),
    "five_modes_30": mixtures.five_modes,
    "spike_20": mixtures.spike,
    "spike_10_centre": partial(mixtures.spike, 10, 0.1, 0.0),
    "far_modes_20": mixtures.far_modes,
    "phase_transition_10": mixtures.phase_transition,
    "bananas_and_gaussian": mixtures.bananas_and_gaussian,
    "bananas_started_there": partial(mixtures.bananas_and_gaussian, start_in_bananas=True),
    "needles": mixtures.needles,
    "nan_gradient": edges.nan_gradient,
    "step_likelihood": edges.step_likelihood,
    "eight_schools_centred": funnels.eight_schools_centred,
    "collapsed_hierarchy": funnels.collapsed_hierarchy,
    "flat_scale": funnels.flat_scale,
    "flat_scale_last": partial(funnels.flat_scale, scale_first=False),
    "funnel_30": funnels.funnel,
    "horseshoe_prior": funnels.horseshoe_prior,
    "cauchy_10": funnels.cauchy,
    "steep_banana": funnels.steep_banana,
    "circular": edges.circular,
    "sharp_beta": edges.sharp_beta,
    "identical_data": edges.identical_data,
    "tied_mixture": edges.tied_mixture,
    "random_walk_250": edges.random_walk,
    "ridges_10": disguised.ridges,
    "two_scales_10": disguised.two_scales,
    "groups_alike_12": disguised.groups_alike,
    "effects_together_8": disguised.effects_together,
}
