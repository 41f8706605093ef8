"""Each hook into a private part has a test here, whose name says which one a release broke."""

import ast
import functools
import importlib.util
import multiprocessing
import pickle
import types
from importlib import import_module
from pathlib import Path

import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import ancestors

import pymc_tempering
from pymc_tempering.private import of_numba, of_pymc, of_pytensor

PACKAGE = Path(pymc_tempering.__file__).parent
HOOKS = {
    name: hook
    for module in (of_numba, of_pymc, of_pytensor)
    for name, hook in vars(module).items()
    if getattr(hook, "__module__", "") == module.__name__ and not name.startswith("_")
}
private = types.SimpleNamespace(**HOOKS)
HOSTS = {"pymc", "pytensor", "numba", "llvmlite", "arviz", "arviz_stats", "arviz_base"}
# What their documentation lists, module by module; everything else belongs into `private`.
PUBLIC = {
    "pymc": None,
    "pymc.backends": {"NDArray"},
    "pymc.model.fgraph": {"clone_model"},
    "pymc.model.transform.conditioning": {"remove_value_transforms"},
    "pymc.model.transform.optimization": {"freeze_dims_and_data"},
    "pymc.pytensorf": {"compile", "join_nonshared_inputs"},
    # what a step method of one's own is made of
    "pymc.step_methods.compound": {
        "BlockedStep",
        "Competence",
        "CompoundStep",
        "StepMethodState",
    },
    "pymc.step_methods.state": {"dataclass_state"},
    "pymc.util": {"get_random_generator"},
    "pytensor": None,
    "pytensor.tensor": None,
    "pytensor.compile.builders": {"OpFromGraph"},
    "pytensor.compile.mode": {"Mode", "get_mode"},
    "pytensor.compile.ops": {"TypeCastingOp"},
    "pytensor.compile.sharedvalue": {"SharedVariable"},
    "pytensor.gradient": {"DisconnectedInputError", "NullTypeGradError"},
    "pytensor.graph.basic": {"Apply", "Constant", "Variable"},
    "pytensor.graph.fg": {"FunctionGraph"},
    "pytensor.graph.op": {"Op"},
    "pytensor.graph.replace": {"graph_replace", "vectorize_graph"},
    "pytensor.graph.rewriting.basic": {"graph_rewriter"},
    "pytensor.graph.traversal": {"ancestors"},
    "pytensor.graph.type": {"Type"},
    "numba": None,
    "numba.extending": {"intrinsic"},
    "llvmlite": None,
    "llvmlite.binding": None,
    "arviz": None,
    "arviz_stats.base": {"array_stats"},
    "arviz_stats.loo": {"SamplingWrapper"},
}


def foreign_imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        yield from ((m, name) for m, name in found if m.split(".")[0] in HOSTS)


def is_public(module, name):
    if module not in PUBLIC:
        return False
    names = PUBLIC[module]
    return names is None or name is None or name in names


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_private_parts_are_imported_nowhere_else(path):
    if path.parent.name == "private":
        return
    outside = [(m, name) for m, name in foreign_imports(path) if not is_public(m, name)]
    assert outside == [], "add a hook to pymc_tempering/private/"


def test_what_counts_as_public_exists():
    for module, names in PUBLIC.items():
        for name in names or ():
            assert hasattr(import_module(module), name), f"{module}.{name}"


def test_every_hook_has_a_test():
    tests = [name for name in globals() if name.startswith("test_")]
    untested = {hook for hook in HOOKS if f"test_{hook.lower()}" not in tests}
    assert untested == {"GraphClasses"}, "what `graph_classes` gives"


def test_with_stable_logs():
    """After PyMC's own rewrites; forms are in tests/model/test_stable.py."""
    x = pt.vector("x")
    at = {x: np.array([50.0])}
    log_density = private.rewrite_before_gradient(pt.log1p(-pt.sigmoid(x)[0]))
    stable = private.with_stable_logs(log_density)
    assert float(stable.eval(at)) == -50.0
    assert pytensor.grad(stable, x).eval(at).tolist() == [-1.0]


def test_graph_classes():
    classes = private.graph_classes()
    with pm.Model() as model:
        x = pm.Normal("x", shape=3)
        named = pm.Deterministic("named", x)
    loop = pytensor.scan(lambda v: 2.0 * v, outputs_info=x[0], n_steps=2, return_updates=False)
    assert isinstance(named.owner.op, classes.view)
    assert named.owner.inputs == [x]
    assert isinstance(pt.vector().shape.owner.op, classes.shape)
    owners = [variable.owner for variable in ancestors([loop]) if variable.owner is not None]
    assert any(isinstance(owner.op, classes.loop) for owner in owners)
    assert isinstance(model["x"].owner.inputs[0].type, classes.generator)


def test_address_of_compiled():
    @numba.njit
    def plus(x, y):
        return x + y

    signature = (numba.types.float64, numba.types.int64)
    address = private.address_of_compiled(plus, signature)
    assert address == private.address_of_compiled(plus, signature) != 0
    assert plus.signatures == [signature]


def test_bounded_integer():
    """The integers, and the generator behind them, are those of ``integers``."""
    bounded = private.bounded_integer()

    @numba.njit
    def draw(rng, most):
        return bounded(rng.bit_generator, most)

    mine, theirs = np.random.default_rng(3), np.random.default_rng(3)
    bounds = [1, 2, 6, 1000, 3_000_000_000, 2**32 - 2] * 20
    assert [draw(mine, most) for most in bounds] == [theirs.integers(most + 1) for most in bounds]
    assert mine.random() == theirs.random()


def compiled_code(function):
    [code] = function.inspect_llvm().values()
    return code


def test_keep_apart():
    """A caller has the name and no code of what it calls, and loads it when it is loaded."""

    @numba.njit
    def cube(x):
        return x * x * x

    @numba.njit
    def shifted(x):
        return cube(x) + 1.0

    def load(arguments):
        return functools.partial(cube.compile, arguments)

    private.keep_apart(cube, lambda arguments: f"test_private.cube.{arguments[0]}", load)
    assert shifted(3.0) == 28.0
    declared = [line for line in compiled_code(shifted).splitlines() if "test_private.cube" in line]
    assert any(line.startswith("declare") for line in declared)
    assert "fmul" in compiled_code(cube)
    assert "fmul" not in compiled_code(shifted)
    [result] = shifted.overloads.values()
    assert [loaded.args for loaded in result.reload_init] == [((numba.types.float64,),)]


def test_hand_on_needs():
    """What a function from the disk had to have loaded, its callers have to have loaded too."""
    square = numba.njit(lambda x: x * x)
    private.hand_on_needs(square)
    square.compile((numba.types.float64,))
    [from_disk] = square.overloads.values()
    square.overloads.clear()
    square.add_overload(from_disk._replace(reload_init=[print]))
    shifted = numba.njit(lambda x: square(x) + 1.0)
    assert shifted(3.0) == 10.0
    [result] = shifted.overloads.values()
    assert result.reload_init == [print]


def test_forget_literals():
    """A number that a caller writes, by place or by name, is one more of its type."""
    power = numba.njit(lambda x, n, plus: x**n + plus)
    private.forget_literals(power)

    @numba.njit
    def all_of_them(n):
        return power(2.0, n, True) + power(2.0, 0, False) + power(2.0, plus=True, n=1)

    assert all_of_them(3) == 13.0
    assert list(power.overloads) == [(numba.types.float64, numba.types.int64, numba.types.boolean)]


def test_name_by_key(tmp_path):
    """Each of two processes that save at the same time has a file of its own."""
    module = tmp_path / "squared.py"
    module.write_text("def squared(x):\n    return x * x\n")
    spec = importlib.util.spec_from_file_location("squared", module)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    mine, theirs = (numba.njit(cache=True)(loaded.squared) for _ in range(2))
    for function in (mine, theirs):
        private.name_by_key(function)
    my_files, their_files = mine._cache._cache_file, theirs._cache._cache_file
    save_data = my_files._save_data

    def save_data_after_the_other(name, data):
        theirs.compile((numba.types.int64,))
        save_data(name, data)

    my_files._save_data = save_data_after_the_other
    their_files._load_index = dict
    mine.compile((numba.types.float64,))
    later = numba.njit(cache=True)(loaded.squared)
    assert [later(1.5), later(3)] == [2.25, 9]
    assert [type(later(1.5)), type(later(3))] == [float, int]
    assert sum(later.stats.cache_hits.values()) == 2


def test_keep_inside():
    """Compiled functions call the function itself, and Python a caller of it."""
    square = numba.njit(no_cpython_wrapper=True)(lambda x: x * x)
    private.keep_inside(square)

    @numba.njit
    def shifted(x):
        return square(x) + 1.0

    assert shifted(3.0) == 10.0
    assert "cpython" not in compiled_code(square)
    assert "cpython" in compiled_code(shifted)
    assert square(4.0) == 16.0
    assert square(2) == 4


def test_is_circular():
    circular = pm.distributions.transforms.circular
    with pm.Model() as model:
        variables = [
            pm.VonMises("a", 0.0, 2.0),
            pm.Uniform("b", -np.pi, np.pi, default_transform=circular),
            pm.Uniform("c", -np.pi, np.pi),
            pm.Normal("d"),
        ]
    transforms = [model.rvs_to_transforms[rv] for rv in variables]
    assert [private.is_circular(t) for t in transforms] == [True, True, False, False]
    of_dims = import_module("pymc.dims.distributions.transforms").circular
    assert private.is_circular(of_dims)


def test_is_packed_cholesky():
    with pm.Model() as model:
        pm.LKJCholeskyCov("a", n=2, eta=1.0, sd_dist=pm.Exponential.dist(1.0))
        pm.Exponential("b")
        pm.LKJCorr("c", n=2, eta=1.0)
        pm.Normal("d")
    transforms = [model.rvs_to_transforms[model[name]] for name in "abcd"]
    assert [private.is_packed_cholesky(t) for t in transforms] == [True, False, False, False]


def test_random_walk():
    with pm.Model() as model:
        sd, first = pm.HalfNormal("sd"), pm.Normal.dist(0.5, 2.0)
        pm.GaussianRandomWalk("walk", sigma=sd, init_dist=first, shape=4)
        pm.AR("cycle", rho=[0.5], sigma=sd, init_dist=first, shape=4)
    begin, steps = private.random_walk(model["walk"])
    assert [of.eval().item() for of in begin.owner.op.dist_params(begin.owner)] == [0.5, 2.0]
    assert sd in ancestors([steps])
    assert private.random_walk(model["cycle"]) is private.random_walk(sd) is None


def test_autoregression():
    with pm.Model() as model:
        sd, first = pm.HalfNormal("sd"), pm.Normal.dist(0.5, 2.0)
        pm.AR("cycle", rho=[0.25], sigma=sd, init_dist=first, shape=4)
        pm.AR("two", rho=[0.25, 0.5], sigma=sd, init_dist=first, shape=4)
        pm.AR("mean", rho=[0.25, 0.5], constant=True, sigma=sd, init_dist=first, shape=4)
        pm.AR("batch", rho=[[0.25], [0.5]], sigma=sd, init_dist=first, shape=(2, 4))
    begin, scale, rho = private.autoregression(model["cycle"])
    assert [of.eval().item() for of in begin.owner.op.dist_params(begin.owner)] == [0.5, 2.0]
    assert scale is sd
    assert float(rho.eval()) == 0.25
    for name in ("two", "mean", "batch", "sd"):
        assert private.autoregression(model[name]) is None


def test_is_improper():
    with pm.Model():
        flat = [pm.Flat("a"), pm.HalfFlat("b", shape=2)]
        proper = [pm.Normal("c"), pm.HalfNormal("d"), pm.Uniform("e", -1, 2)]
    assert [private.is_improper(rv) for rv in flat + proper] == [True, True, False, False, False]


def test_is_log_transform():
    with pm.Model() as model:
        variables = [pm.Gamma("a", 2, 3), pm.Uniform("b", 1, 4), pm.Normal("c")]
    transforms = [model.rvs_to_transforms[rv] for rv in variables]
    assert [private.is_log_transform(t) for t in transforms] == [True, False, False]


def test_is_ordered():
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        variables = [
            pm.Normal("a", shape=3, transform=ordered, initval=[-1.0, 0.5, 2.0]),
            pm.Dirichlet("b", [1.0, 2.0]),
            pm.Normal("c"),
        ]
    transforms = [model.rvs_to_transforms[rv] for rv in variables]
    assert [private.is_ordered(t) for t in transforms] == [True, False, False]


def test_is_simplex():
    with pm.Model() as model:
        variables = [pm.HalfNormal("a"), pm.Dirichlet("b", [1.0, 2.0]), pm.Normal("c")]
    transforms = [model.rvs_to_transforms[rv] for rv in variables]
    assert [private.is_simplex(t) for t in transforms] == [False, True, False]


def test_is_simulator():
    with pm.Model():
        location = pm.Normal("a")
        simulated = pm.Simulator("b", lambda rng, a, size: rng.normal(a, 2.0), location, observed=3)
    assert [private.is_simulator(rv) for rv in (location, simulated)] == [False, True]


def test_has_total_size():
    """What is wrapped stands first among the inputs of the wrapper, then a size for each axis."""
    with pm.Model():
        plain = pm.Normal("a", observed=[1.0, 2.5])
        scaled = pm.Normal("b", observed=[1.0, 2.5], total_size=7)
    assert [private.has_total_size(rv) for rv in (plain, scaled)] == [False, True]
    inner, size = scaled.owner.inputs
    assert inner.type.shape == (2,)
    assert int(size.data) == 7


def test_parameter_error():
    log_density = pm.logp(pm.Normal.dist(0.0, pt.dscalar("sigma")), 0.3)
    check = pytensor.function(
        list(pytensor.graph.traversal.explicit_graph_inputs([log_density])), log_density
    )
    with pytest.raises(private.parameter_error()):
        check(-1.0)


def test_reseed():
    draw = pm.pytensorf.compile([], pm.Normal.dist(3.0, 2.0, size=2), random_seed=0)
    private.reseed(draw, 5)
    first = draw()
    assert np.all(draw() != first)  # the generator goes on
    private.reseed(draw, 6)
    assert np.all(draw() != first)
    private.reseed(draw, 5)
    assert np.all(draw() == first)


def test_constant_values():
    with pm.Model():
        p = pm.Dirichlet("p", np.ones(4))
        k = pm.Categorical("k", p, shape=3)
    fixed = private.constant_values([p.shape[-1] - 1, pt.floor(pt.as_tensor([1.5, 2.0]))])
    assert [np.asarray(value).tolist() for value in fixed] == [3, [1.0, 2.0]]
    assert private.constant_values([p.shape[-1], k[0] + 1]) is None


def test_draws_from_prior():
    with pm.Model() as model:
        pm.LogNormal("x", 3.0, 0.1)
    draw = private.draws_from_prior(model)
    values = [draw(seed)["x_log__"] for seed in range(5)]
    assert np.all(np.abs(np.array(values) - 3.0) < 1.0)  # ten standard deviations of the prior
    assert len(set(map(float, values))) == 5
    assert draw(2)["x_log__"] == values[2]


def test_assigned_steps():
    with pm.Model() as model:
        pm.Bernoulli("a", 0.3)
        pm.Categorical("b", [0.2, 0.3, 0.5])
        pm.Poisson("c", 2.0)
    step = private.assigned_steps(model)
    assert sorted(type(method).__name__ for method in step.methods) == [
        "BinaryGibbsMetropolis", "CategoricalGibbsMetropolis", "Metropolis",
    ]  # fmt: skip
    point, statistics = step.step(model.initial_point())
    assert point.keys() == {"a", "b", "c"}
    assert len(statistics) == 3
    assert type(step.sampling_state)(methods=step.sampling_state.methods) == step.sampling_state


def test_default_cores():
    assert 0 <= private.default_cores() <= min(4, multiprocessing.cpu_count())


def test_start_method():
    assert private.start_method("spawn") == "spawn"
    assert private.start_method(multiprocessing.get_context("forkserver")) == "forkserver"
    assert private.start_method(None) in multiprocessing.get_all_start_methods()


def test_dispatch_by_op():
    with pm.Model() as model:
        pm.CustomDist("x", logp=lambda value: -value, support_point=lambda *_: pt.constant(1.0))
    own = type(model["x"].owner.op)
    found = private.dispatch_by_op()
    assert [name for name in found if own in found[name].registry] == [
        "logprob", "logcdf", "support_point",
    ]  # fmt: skip
    assert min(len(function.registry) for function in found.values()) > 1


def test_has_random_terms():
    x = pt.dscalar("x")
    noise = pm.Normal.dist(x, 1.0)
    assert private.has_random_terms([noise + x])
    assert not private.has_random_terms([x**2])


def test_rewrite_before_gradient():
    """At 800, log(1 - sigmoid) has the gradient -1, and nan as it is written."""
    x = pt.dscalar("x")
    as_written = Mode("py", None)
    rewritten = private.rewrite_before_gradient(pt.log(1.0 - pt.sigmoid(x)))
    assert pytensor.function([x], rewritten, mode=as_written)(0.5) == pytest.approx(-0.974077)
    gradient = pytensor.function([x], pytensor.grad(rewritten, x), mode=as_written)
    assert gradient(800.0) == pytest.approx(-1.0)


def test_rewrite_parameter_checks():
    sigma = pt.dscalar("sigma")
    log_density = pm.logp(pm.Normal.dist(0.0, sigma), 0.3)
    graph = FunctionGraph([sigma], [log_density], clone=False)
    private.rewrite_parameter_checks(graph)
    assert graph.outputs[0].eval({sigma: -1.0}) == -np.inf
    assert graph.outputs[0].eval({sigma: 2.0}) == pytest.approx(-1.6233357)  # of SciPy


def test_runs_compiled_code():
    total = pytensor.scan(
        lambda a, b: a + b, sequences=[pt.dvector("v")], outputs_info=np.float64(0)
    )
    total = total[0] if isinstance(total, list | tuple) else total
    loops = [v.owner.op for v in pytensor.graph.traversal.ancestors([total]) if v.owner]
    assert any(private.runs_compiled_code(op) for op in loops)
    x = pt.dscalar("x")
    composite = pytensor.function([x], pt.exp(pt.sin(x) * 2.0) + x, mode="NUMBA")
    ops = [node.op for node in composite.maker.fgraph.toposort()]
    assert ops
    assert not any(private.runs_compiled_code(op) for op in ops)


@pytest.fixture(scope="module")
def cubed():
    x = pt.dscalar("x")
    return pytensor.function([x], x**3 + 0.25, mode="NUMBA", trust_input=True)


NO_JAX = "JAX is not installed: pip install jax"


def test_is_for_jax():
    jax = pytest.importorskip("jax", reason=NO_JAX)
    x = pt.dvector("x")
    assert private.is_for_jax(pytensor.wrap_jax(jax.numpy.sum)(pt.zeros(3) + x).owner.op)
    assert not private.is_for_jax(x.sum().owner.op)


def test_is_step():
    x = pt.vector("x")
    steps = (x > 0.0, pt.floor(x), pt.sign(x), x.astype("int64"), pt.round(x), pt.eq(x, 1.0))
    others = (2.0 * x, pt.switch(x > 0.0, x, 0.0), pt.abs(x), pm.Poisson.dist(pt.exp(x)))
    assert all(map(private.is_step, steps))
    assert not any(map(private.is_step, others))


def test_jax_dispatch():
    """Who writes an Op for JAX registers it; it is then known by its class, and sent to workers."""
    pytest.importorskip("jax", reason=NO_JAX)

    class Mine(Op):
        def perform(self, node, inputs, outputs):
            outputs[0][0] = inputs[0]

    assert not private.is_for_jax(Mine())
    private.jax_dispatch().register(Mine, lambda op, **_: None)
    assert private.is_for_jax(Mine())
    assert Mine in private.dispatch_by_op(["jax"])["jax"].registry


def test_jitted(cubed):
    inner = private.jitted(cubed)

    @numba.njit
    def call(x):
        return inner(x)

    assert np.asarray(call(np.array(2.0))) == pytest.approx(8.25)


def test_never_merge():
    one, other = pt.constant([0.5, 2.0]), pt.constant(np.array([0.5, 2.0]))
    third = pt.constant([3.0, 4.0])
    equal = [pt.constant(np.array([0.5, 2.0])) for _ in range(2)]
    private.never_merge(equal)

    def n_kept(constants):
        graph = FunctionGraph([], [pt.stack([*constants, third])], clone=False)
        MergeOptimizer().rewrite(graph)
        return sum(v in graph.variables for v in constants)

    assert n_kept([one, other]) == 1
    assert n_kept(equal) == 2


def test_graph_key(cubed):
    again = pytensor.function(cubed.maker.fgraph.inputs, cubed.maker.fgraph.outputs, mode="NUMBA")
    key = private.graph_key(private.jitted(cubed))
    assert isinstance(key, str)
    assert private.graph_key(private.jitted(again)) == key
    x = pt.dscalar("x")
    other = pytensor.function([x], x**3 + 0.5, mode="NUMBA")
    assert private.graph_key(private.jitted(other)) != key
    assert private.graph_key(numba.njit(lambda x: x)) is None


def test_without_key(cubed):
    """What has no key is called by nothing else, and needs nothing else to be compiled."""
    keyed = private.jitted(cubed)
    inner = private.without_key(keyed)
    assert private.graph_key(inner) is None
    assert private.without_key(inner) is inner
    call = numba.njit(lambda x: inner(x))
    compiled_before = len(keyed.overloads)
    assert np.asarray(call(np.array(2.0))) == pytest.approx(8.25)
    assert len(inner.overloads) > 0
    assert len(keyed.overloads) == compiled_before


def test_compile_keyed():
    names = {"__name__": __name__, "shift": 0.125}
    source = "def shifted(x):\n    return x + shift\n"
    function = private.compile_keyed(source, "shifted", names, None)
    assert numba.njit(function)(2.0) == 2.125


def test_no_reference_counts():
    """Nothing counts in the function's own code, and an array made inside is refused."""

    def first(rows):
        return rows[0][0] + rows[1][0]

    def made(n):
        return np.empty(n).size

    rows = np.array([[1.0], [2.0]])
    plain, borrowing = numba.njit(first), numba.njit(**private.no_reference_counts())(first)
    assert plain(rows) == borrowing(rows) == 3.0
    with pytest.raises(numba.TypingError, match="array passed into the function"):
        numba.njit(**private.no_reference_counts())(made)(3)
    assert numba.njit(made)(3) == 3


def test_cache_locators():
    """Ours come after those with keys of their own, and before numba's."""
    import_module("pymc_tempering.jit")
    classes = private.cache_locators()
    owners = [c.__module__.split(".")[0] for c in classes]
    ours = [i for i, owner in enumerate(owners) if owner == "pymc_tempering"]
    assert len(ours) == len(private.stock_locators())
    assert max(i for i, owner in enumerate(owners) if owner == "pytensor") < min(ours)
    assert max(ours) < min(i for i, owner in enumerate(owners) if owner == "numba")


def test_set_cache_locators():
    before = private.cache_locators()
    try:
        private.set_cache_locators(before[:1])
        assert private.cache_locators() == before[:1]
    finally:
        private.set_cache_locators(before)


def test_stock_locators():
    stock = private.stock_locators()
    import_module("pymc_tempering.jit")
    own = [c for c in private.cache_locators() if c.__module__.startswith("numba")]
    assert stock == own[:3]
    assert all(hasattr(c, "get_source_stamp") and hasattr(c, "from_function") for c in stock)


def test_locator_file():
    from pymc_tempering.numerics import log_exprel

    locator = log_exprel._cache._impl.locator
    assert Path(private.locator_file(locator)).name == "numerics.py"


def test_progresshooks():
    """PyMC asks the step for its columns, and shows what its function makes of the statistics."""
    from rich.progress import TextColumn

    requested = []

    class Noted(pm.Metropolis):
        _progressbar_config = private.ProgressHooks._progressbar_config
        _make_progressbar_update_functions = (
            private.ProgressHooks._make_progressbar_update_functions
        )

        def progress_columns(self, n_chains):
            requested.append(n_chains)
            return [TextColumn("{task.fields[mark]}")], {"mark": [0] * n_chains}

        def progress_update(self):
            return lambda statistics: requested.append(sorted(statistics)) or {"mark": 1}

    with pm.Model():
        pm.Normal("x", 1.0, 2.0)
        pm.sample(
            3, tune=2, chains=2, cores=1, step=Noted(), random_seed=1, quiet=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert requested[0] == 2
    assert any("accept" in names for names in requested[1:])


def test_resize_observed():
    """Of as many values as are given, or as will be, with the rest of the model as it was."""
    for value in (pt.constant(np.zeros((5, 2))), pt.matrix("new")):
        with pm.Model() as model:
            x = pm.Normal("x", 0.5, 1.0)
            pm.Normal("other", x, 1.0, observed=np.zeros(3))
            pm.MvNormal("y", [x, -x], np.eye(2), observed=np.ones((3, 2)))
        with model:
            model.values_to_rvs.pop(model.rvs_to_values.pop(model["y"]))
            new = private.resize_observed(model, 1, value)
            model.rvs_to_values[new], model.values_to_rvs[value] = value, new
        assert model["y"] is new is model.observed_RVs[1]
        assert new.type.shape == ((5, 2) if value.name is None else (None, 2))
        graph = model.logp().eval({model.value_vars[0]: 0.3} | (
            {} if value.name is None else {value: np.zeros((5, 2))}
        ))  # fmt: skip
        exact = -0.5 * (0.2**2 + 13 * 0.3**2)
        assert graph == pytest.approx(exact - 7.0 * np.log(2.0 * np.pi), rel=1e-10)


def test_a_step_with_hooks_can_be_sent_to_workers():
    assert pickle.loads(pickle.dumps(private.ProgressHooks())).__class__ is private.ProgressHooks


def test_indexing():
    x, i = pt.vector("x"), pt.lvector("i")
    for entries in (x[i], x[i[0]]):
        op, array, indices = private.indexing(entries.owner)
        assert op == entries.owner.op
        assert (array, len(indices)) == (x, 1)
        op, array, _ = private.indexing(pt.inc_subtensor(entries, 1.0).owner)
        assert (op, array) == (entries.owner.op, x)
    assert private.indexing((x + 1.0).owner)[0] is None


def test_is_cast():
    x = pt.vector("x")
    assert private.is_cast(x.astype("float32"))
    assert not private.is_cast(pt.log(x))
    assert not private.is_cast(x)


def test_nodes_in_order():
    x = pt.vector("x")
    y = pt.exp(x)
    assert private.nodes_in_order([pt.sqrt(y), y])[0] is y.owner


def test_with_types_of():
    fixed = pt.constant(np.array(3))
    assert pt.zeros(fixed).type.shape == (3,)
    [other] = private.with_types_of([pt.zeros(fixed)], {fixed: fixed.type()})
    assert other.type.shape == (None,)
