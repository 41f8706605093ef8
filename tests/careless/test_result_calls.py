"""Careless and hostile calls of what reads, compares and reports: refused by name."""

import pytest

from pymc_tempering.errors import BaseError, DataError, ModelError, OptionError, TemperingError

CALLS = [
    # --- LogZEstimate
    ("LogZEstimate('a', 0.1, 'pt', [0.0])", OptionError, "`log_z` is 'a'"),
    ("LogZEstimate(None, 0.1, 'pt', [0.0])", OptionError, "`log_z` is None"),
    ("LogZEstimate(0.0, -0.1, 'pt', [0.0])", OptionError, "`se` is -0.1"),
    ("LogZEstimate(0.0, [0.1], 'pt', [0.0])", OptionError, r"`se` is \[0.1\]"),
    ("estimate.interval(95)", OptionError, "For 95 % write 0.95"),
    ("estimate.interval(0)", OptionError, "`prob` is 0"),
    ("estimate.interval(nan)", OptionError, "`prob` is nan"),
    ("estimate.interval('0.95')", OptionError, "`prob` is '0.95'"),
    # --- compare
    ("compare({})", OptionError, "at least two"),
    ("compare([estimate, worse])", OptionError, "mapping"),
    ("compare({'a': estimate})", OptionError, "at least two"),
    ("compare(model)", OptionError, "mapping"),
    ("compare({'a': estimate, 'b': 'run.nc'})", DataError, r"no file run\.nc"),
    ("compare({'a': estimate, 'b': -12.0})", OptionError, "'b' is a float"),
    ("compare({'a': estimate, 'b': None})", OptionError, "'b' is a NoneType"),
    ("compare({'a': estimate, 'b': worse}, prob=95)", OptionError, "For 95 % write 0.95"),
    ("compare({'a': estimate, 'b': worse}, prob=0)", OptionError, "`prob` is 0"),
    ("compare({'a': estimate, 'b': worse}, prob='0.9')", OptionError, "`prob` is '0.9'"),
    ("compare({'a': estimate, 'b': worse}, prob=nan)", OptionError, "`prob` is nan"),
    ("compare({'a': estimate, 'b': worse}, [0.5, 0.5])", OptionError, "is a list"),
    ("compare({'a': estimate, 'b': worse}, {'a': 1.0})", OptionError, "names"),
    ("compare({'a': estimate, 'b': worse}, {'a': 1, 'c': 1})", OptionError, "names"),
    ("compare({'a': estimate, 'b': worse}, {'a': -1, 'b': 2})", OptionError, "non-negative"),
    ("compare({'a': estimate, 'b': worse}, {'a': 0, 'b': 0})", OptionError, "non-negative"),
    ("compare({'a': estimate, 'b': worse}, {'a': nan, 'b': 1})", OptionError, "non-negative"),
    ("compare({'a': estimate, 'b': worse}, {'a': inf, 'b': 1})", OptionError, "non-negative"),
    ("compare({'a': estimate, 'b': worse}, {'a': 'x', 'b': 1})", OptionError, "numbers"),
    ("compare({'a': estimate, 'b': worse}, {1: 1, 'b': 1})", OptionError, "names"),
    ("compare({'a': estimate, 'b': worse}, draws=100)", OptionError, r"\['draws'\] are for"),
    ("compare({'a': run, 'b': estimate}, method='st')", OptionError, r"\['method'\] are for"),
    ("compare({'a': estimate, 'b': worse}, random_seed='x')", OptionError, "`random_seed` is 'x'"),
    ("compare({'a': model, 'b': other})", DataError, "different data"),
    ("compare({'a': run, 'b': other})", DataError, "different data"),
    ("compare({'a': estimate, 'b': nuts})", DataError, "'b'.*sample_stats|'b'.*NUTS"),
    ("compare({'a': estimate, 'b': empty})", DataError, "'b': "),
    ("compare({'a': model, 'b': model}, draw=5)", OptionError, "did you mean draws"),
    ("compare({'a': model, 'b': model}, target_se='x')", OptionError, "`target_se` is 'x'"),
    ("compare({'a': discrete, 'b': discrete})", ModelError, "neither observed"),
    # --- bayes_factor
    ("bayes_factor(estimate, 3.0)", OptionError, "'b' is a float"),
    ("bayes_factor('a', 'b')", DataError, r"no file a\."),
    ("bayes_factor(model, other)", DataError, "different data"),
    ("bayes_factor(estimate, worse, draws=10)", OptionError, r"\['draws'\] are for"),
    ("bayes_factor(estimate, worse).interval(95)", OptionError, "For 95 % write 0.95"),
    # --- concat_chains
    ("concat_chains([])", DataError, "empty list"),
    ("concat_chains(run)", DataError, "given a DataTree; expected a list"),
    ("concat_chains('run.nc')", DataError, "open_datatree"),
    ("concat_chains(None)", DataError, "given a NoneType"),
    ("concat_chains([run, 'run.nc'])", DataError, "Run 1 is a str.*open_datatree"),
    ("concat_chains([run, estimate])", DataError, r"Run 1 is a LogZEstimate.*\.idata"),
    ("concat_chains([run, empty])", DataError, "no `sample_stats`"),
    ("concat_chains([run, nuts])", DataError, "different samplers"),
    ("concat_chains([run, run])", DataError, "chain 0 of run 1 repeats chain 0 of run 0"),
    ("concat_chains([run.isel(chain=[0])] * 4)", DataError, "chain 0 of run 3 repeats"),
    ("concat_chains([run, run.isel(draw=slice(9))])", DataError, "the same in all"),
    # --- average
    ("average(run)", OptionError, "at least two"),
    ("average({'a': run})", OptionError, "at least two"),
    ("average({'a': run, 'b': 3})", OptionError, "'b' is a int"),
    ("average({'a': run, 'b': estimate})", OptionError, "has no `idata`"),
    ("average({'a': run, 'b': run})", DataError, "posterior_predictive"),
    ("average({'a': run, 'b': run}, group='posteriors')", DataError, "no group `posteriors`"),
    ("average({'a': run, 'b': run}, group=None)", DataError, "no group `None`"),
    ("average({'a': run, 'b': run}, group='posterior', var_names='z')", DataError, r"\['z'\]"),
    ("average({'a': run, 'b': run}, group='posterior', num_samples=0)", OptionError, "num_samples"),
    ("average({'a': run, 'b': run}, group='posterior', num_samples=2.5)", OptionError, "is 2.5"),
    ("average({'a': run, 'b': run}, 5, group='posterior')", OptionError, "`comparison` is a int"),
    (
        "average({'a': run, 'b': run}, table.drop(columns='se'), group='posterior')",
        OptionError,
        "lacks the columns",
    ),
    ("average({'a': run, 'c': run}, table, group='posterior')", OptionError, "models"),
    (
        "average({'a': run, 'b': run}, table, prior_probs={'a': 1, 'b': 1}, group='posterior')",
        OptionError,
        "part of a table",
    ),
    ("average({'a': run, 'b': run}, group='posterior', prior_probs=[1, 1])", OptionError, "list"),
    ("average({'a': run, 'b': run}, group='posterior', random_seed=-1)", OptionError, "is -1"),
    ("average({'a': run, 'b': run}, group='posterior', carry_error='no')", OptionError, "'no'"),
    # --- prior_sensitivity
    ("prior_sensitivity('run.nc', model)", OptionError, "given a str"),
    ("prior_sensitivity(estimate, model)", OptionError, "without a run"),
    ("prior_sensitivity(run)", ModelError, "without a model"),
    ("prior_sensitivity(run, 'model')", OptionError, "given a str"),
    ("prior_sensitivity(run, model, prior_scale={'x': 0})", OptionError, "positive"),
    ("prior_sensitivity(run, model, prior_scale={'x': -1})", OptionError, "positive"),
    ("prior_sensitivity(run, model, prior_scale={'x': nan})", OptionError, "positive"),
    ("prior_sensitivity(run, model, prior_scale={'x': 'two'})", OptionError, "positive"),
    ("prior_sensitivity(run, model, prior_scale={'q': 2.0})", OptionError, "'q' is no free"),
    ("prior_sensitivity(run, model, prior_scale={3: 2.0})", OptionError, "name"),
    ("prior_sensitivity(run, model, likelihood_power=[0])", OptionError, "positive"),
    ("prior_sensitivity(run, model, likelihood_power='all')", OptionError, "positive"),
    ("prior_sensitivity(run, model, alternatives={'a': 3})", OptionError, "is a int"),
    ("prior_sensitivity(run, model, alternatives=[model])", OptionError, "mapping"),
    ("prior_sensitivity(run, other)", DataError, "different observed data"),
    ("prior_sensitivity(run, renamed)", DataError, "the prior of 'x' and the prior of 'z'"),
    # --- report and pictures
    ("report('run.nc')", DataError, r"no file run\.nc"),
    ("report(None)", DataError, "given was a NoneType|Given was a NoneType"),
    ("report(estimate)", DataError, "carries no run"),
    ("report(nuts)", DataError, "sample_stats|NUTS"),
    ("report(empty)", DataError, "sample_stats"),
    ("report(run, '/dev/null/report.html')", OptionError, "/dev/null"),
    ("plot_barrier(None)", DataError, "NoneType"),
    ("plot_barrier(nuts)", DataError, "sample_stats|NUTS"),
    ("plot_report('run.nc')", DataError, "open_datatree"),
    ("plot_report(empty)", DataError, "sample_stats|pictures|groups"),
    ("plot_logz_trace(run, x='scans')", OptionError, "Unknown x 'scans'"),
    ("plot_logz_trace(run, n_points=1)", OptionError, "`n_points` is 1"),
    ("plot_index_process(run, chain=7)", OptionError, "`chain` is 7"),
    ("plot_index_process(run, draws=1)", OptionError, "`draws` is 1"),
    ("plot_beta_occupancy(run)", DataError, "plot_index_process"),
    ("plot_log_weights(run)", DataError, "log_weight_forward"),
    ("plot_evidence([estimate])", DataError, "mapping"),
    ("plot_evidence({})", DataError, "mapping"),
    ("plot_evidence({'a': estimate}, prob=95)", OptionError, "For 95 % write 0.95"),
    ("plot_prior_sensitivity(table)", DataError, "prior_sensitivity"),
    # --- bases, temper, untemper, tempered_expectation
    ("fit_base()", ModelError, "without a model"),
    ("fit_base('model')", OptionError, "fit_base was given a str"),
    ("fit_base(run)", OptionError, "fit_base was given a DataTree"),
    ("fit_base(model, 'laplace')", OptionError, "`fit_base` was given \\['laplace'\\]; expected"),
    ("fit_base(model, search='wide')", OptionError, "Unknown search"),
    ("fit_base(model, search=1)", OptionError, "Unknown search"),
    ("fit_base(model, random_seed='x')", OptionError, "`random_seed` is 'x'"),
    ("fit_base(discrete)", ModelError, "discrete"),
    ("fit_base(flat)", ModelError, "flat"),
    ("fit_base(nothing)", ModelError, "no free variables"),
    ("GaussianBase([0.0], [0.0])", BaseError, "must be positive"),
    ("GaussianBase([0.0], [-1.0])", BaseError, "must be positive"),
    ("GaussianBase([0.0], [1.0, 1.0])", BaseError, "shape"),
    ("GaussianBase([], [])", BaseError, "shape"),
    ("GaussianBase([nan], [1.0])", BaseError, "finite"),
    ("GaussianBase([0.0], [inf])", BaseError, "finite"),
    ("GaussianBase('zero', 'one')", BaseError, "mean"),
    ("GaussianBase([0.0], [1.0], log_zeta=nan)", BaseError, "log_zeta"),
    ("GaussianBase([0.0], [1.0], log_zeta='auto')", BaseError, "log_zeta"),
    ("GaussianBase([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])", BaseError, "diagonal"),
    ("temper()", ModelError, "without a model"),
    ("temper('model')", OptionError, "given a str"),
    ("temper(model, log_zeta=nan)", OptionError, "`log_zeta` is nan"),
    ("temper(model, log_zeta='adapt')", OptionError, "`log_zeta` is 'adapt'"),
    ("temper(model, log_zeta=1.0, bias=([0, 1], [0, 1]))", OptionError, "Both"),
    ("temper(model, bias=3.0)", OptionError, "`bias` is of type float"),
    ("temper(model, bias=([0, 1], [0, nan]))", OptionError, "finite"),
    ("temper(model, bias=([0, 2], [0, 1]))", TemperingError, "increase strictly from 0"),
    ("temper(discrete)", ModelError, "discrete"),
    ("untemper('run.nc')", DataError, "of type str"),
    ("untemper(run)", DataError, "lacks the recorded variables"),
    ("untemper(empty)", DataError, "no `posterior`"),
    ("tempered_expectation([1.0], [1.0], [0, 1], [0, 1], 2.0)", OptionError, "beta is 2.0"),
    ("tempered_expectation([1.0], [1.0], [0, 1], [0, 1], 'one')", OptionError, "beta is 'one'"),
    ("tempered_expectation(['a'], [1.0], [0, 1], [0, 1], 1.0)", DataError, "numbers"),
    ("tempered_expectation([1.0], ['a'], [0, 1], [0, 1], 1.0)", DataError, "numbers"),
    ("tempered_expectation([1.0], [nan], [0, 1], [0, 1], 1.0)", DataError, "finite"),
    ("tempered_expectation([], [], [0, 1], [0, 1], 1.0)", DataError, "shape"),
    ("tempered_expectation([1.0], [1.0], [0, 2], [0, 1], 1.0)", TemperingError, "from 0"),
    ("tempered_expectation([1.0], [1.0], [0, 1], [0, 'a'], 1.0)", DataError, "numbers"),
]


@pytest.mark.parametrize(("source", "error", "message"), CALLS, ids=[row[0] for row in CALLS])
def test_refused_by_name(source, error, message, call):
    with pytest.raises(error, match=message) as caught:
        call(source)
    assert isinstance(caught.value, TemperingError)


NEED_COMPILING = [
    ("ParallelTempering(model=model, base='wide')", OptionError, "`base` is 'wide'"),
    ("ParallelTempering(model=model, base=3)", OptionError, "`base` is 3"),
    ("ParallelTempering(model=model, base=base2)", BaseError, "2 dimensions.*model has 1"),
    ("ParallelTempering(model=model, base=empty)", DataError, "no `posterior`"),
    ("ParallelTempering(model=renamed, base=run)", DataError, r"lacks the free variables \['z'\]"),
    ("ParallelTempering([], model=model)", ModelError, "must own all"),
    ("temper(model, base='wide')", TemperingError, "`base` is"),
    ("temper(model, base=base2)", BaseError, "2 dimensions"),
    ("anneal(model, draws='all', progressbar=False)", OptionError, "`draws` is 'all'"),
    ("anneal(model, draws=np.zeros((4, 3)), progressbar=False)", OptionError, r"\(n, 1\)"),
    ("anneal(model, draws=[[nan]], progressbar=False)", OptionError, "finite"),
    ("anneal(model, base=base2)", BaseError, "2 dimensions"),
]


@pytest.mark.parametrize(
    ("source", "error", "message"), NEED_COMPILING, ids=[row[0] for row in NEED_COMPILING]
)
def test_refused_once_the_model_is_known(source, error, message, call):
    with pytest.raises(error, match=message):
        call(source, may_compile=True)


UNKNOWN = "LogZEstimate(nan, nan, 'pt', [nan])"

RIGHT = [
    (f"repr(bayes_factor({UNKNOWN}, worse))",
     "log BF unknown: at least one of the two log Z is unknown"),
    (f"bayes_factor({UNKNOWN}, worse).words", "unknown"),
    ("len(repr(LogZEstimate(3.2e195, 1e190, 'pt', [0.0]))) < 120", True),
    (f"'error unknown' in repr({UNKNOWN})", True),
    ("'crossed' in repr(LogZEstimate(0.0, 0.1, 'hais', [0.0], lower=0.2, upper=0.1))", True),
    (f"compare({{'a': estimate, 'b': {UNKNOWN}}})['probability'].isna().tolist()", [True, True]),
    (f"compare({{'a': estimate, 'b': {UNKNOWN}}}).index.tolist()", ["a", "b"]),
    ("concat_chains([run])['posterior'].sizes['chain']", 2),
    ("estimate_logz(run, progressbar=False).log_z == estimate_logz(run).log_z", True),
    ("estimate_logz(run.isel(chain=[1])).per_chain.size", 1),
    ("tempered_expectation([1.0, 3.0], [0.0, 0.0], [0, 1], [0, 0], 1).tolist()", 2.0),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
@pytest.mark.parametrize(("source", "answer"), RIGHT, ids=[row[0] for row in RIGHT])
def test_right_answers(source, answer, call):
    assert call(source) == answer
