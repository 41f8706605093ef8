"""Names under which a tempered model and its draws carry what `untemper` needs."""

from collections.abc import Iterable

__all__ = ["BETA", "DELTA", "OBSERVED", "POSITION", "PREFIX", "RECORDS", "beta_name"]

PREFIX = "tempering_"
BETA = "beta"
POSITION = PREFIX + "u"
DELTA = PREFIX + "delta"
OBSERVED = PREFIX + "observed_"
RECORDS = tuple(
    PREFIX + name
    for name in (
        "knots",
        "bias",
        "base_mean",
        "base_scale",
        "base_delta",
    )
)


def beta_name(names: Iterable[str]) -> str:
    """Return the name of the inverse temperature beside variables of these names.

    Examples
    --------
    >>> beta_name(["alpha"]), beta_name(["alpha", "beta"])
    ('beta', 'tempering_beta')
    """
    return PREFIX + BETA if BETA in names else BETA
