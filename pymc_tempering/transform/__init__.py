"""Continuous tempering as a model transform: any NUTS samples the tempered model."""

from pymc_tempering.transform.bias import Bias
from pymc_tempering.transform.tempered import temper
from pymc_tempering.transform.untempered import untemper

__all__ = ["Bias", "temper", "untemper"]
