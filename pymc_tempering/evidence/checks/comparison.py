"""What speaks against comparing or averaging models; found by `compare`, `average` and others."""

from pymc_tempering.evidence.checks.check import Check

CHECKS = (
    Check(
        "prior_mass_out_of_reach",
        "An alternative of `prior_sensitivity` has prior mass where the model of the run has none, "
        "and no draw shows what it is worth.",
        "Sample the alternative.",
    ),
    Check(
        "data_not_compared",
        "The likelihood of a model that is compared or averaged is a `pm.Potential`, which does "
        "not say what in it is data, and the potentials of the models differ. Only you can tell "
        "whether the data are the same.",
        "Write the likelihood with `observed=`, which is checked.",
    ),
    Check(
        "doubtful_evidence",
        "Models were averaged with an estimate of log Z that has warnings. All weights depend on "
        "it.",
        "Mend that estimate first.",
    ),
)
