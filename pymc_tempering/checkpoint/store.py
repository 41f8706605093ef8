"""The folder of a run that can be continued: whose run it is, its fits, and a journal per chain."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pymc_tempering.checkpoint.description import differences
from pymc_tempering.checkpoint.files import (
    DamagedFileError,
    acquire,
    end_with_parent,
    read_tree,
    refuse_objects,
    write_tree,
)
from pymc_tempering.checkpoint.journal import (
    Evaluations,
    Journal,
    n_evaluated,
    n_kept,
    remove_evaluations,
    stored_draws,
)
from pymc_tempering.engine.state import from_plain, to_plain
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.methods import Method
from pymc_tempering.model.at_draws import differing
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.references.prepared import Prepared, Search
from pymc_tempering.results.files import PARTIAL, probe, write_whole

FORMAT = 18
"""Of the folder of a run, see :attr:`Folder.format`."""

_ABOUT = "run.json"
_FITS = "fits.npz"
_LOCK = "lock"
_CHAIN = "chain-"


@dataclass(frozen=True)
class Kept:
    """What a step is given of a store, and takes along into other processes.

    ``n_draws`` is that of the first call, for which scans are planned: those of a draw are the same
    in all chains and calls.
    """

    folder: Path
    n_draws: int

    def journal(self, rng: np.random.Generator, total: int) -> Journal:
        """Open the journal of the chain whose generator is in this state, of `total` steps."""
        end_with_parent()
        state = repr(rng.bit_generator.state).encode()
        name = f"{_CHAIN}{hashlib.sha256(state).hexdigest()[:16]}"
        return Journal(self.folder / name, total)

    @contextmanager
    def searching(self, density: CompiledDensity) -> Iterator[CompiledDensity]:
        """Give the same density, whose evaluations are kept until there are fits."""
        evaluations = Evaluations(self.folder, density.address, density.dim)
        try:
            yield density.evaluated_by(evaluations.function)
        except BaseException:
            evaluations.flush()
            raise

    def fits(self) -> Prepared | None:
        """Fits that were kept; None without any, or where they cannot be read."""
        if not (self.folder / _FITS).exists():
            return None
        try:
            kept = from_plain(read_tree(self.folder / _FITS))
            search = Search(**_with_tuples(kept["search"]))
            return Prepared(**_with_tuples(kept | {"search": search}))
        except (DamagedFileError, OSError, TypeError, KeyError):
            return None

    def keep_fits(self, found: Prepared) -> None:
        """Keep the fits of a run; all its chains start from them."""
        tree = to_plain(
            {field.name: getattr(found, field.name) for field in fields(found)}
            | {"search": asdict(found.search)}
        )
        try:
            write_whole(self.folder / _FITS, lambda path: write_tree(path, tree), overwrite=True)
            remove_evaluations(self.folder)
        except OSError as error:
            raise _unwritable(self.folder, error) from error


def _with_tuples(kept: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in kept.items()}


class Folder:
    """The folder of one call, open to this process alone until it is closed."""

    kind: str
    """What its description is called, so that it is not taken for one of another kind."""
    format: int
    """Number of its layout; raised with every change of it, or of the coordinates in it."""
    # settings of the call that are read from it, and what takes them
    _known: ClassVar[Mapping[str, Callable[[Any], object]]] = {"random_seed": repr}

    def __init__(self, path: Any) -> None:
        self.folder = check_folder(path)
        try:
            lock = acquire(self.folder / _LOCK)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        if lock is None:
            raise OptionError(
                f"Another process is sampling into {self.folder}. Wait until it has ended, or give "
                "another path for a run of its own."
            )
        self._lock = lock
        try:
            self._about = self._opened()
        except BaseException:
            self.close()
            raise

    def _opened(self) -> dict[str, Any]:
        """Read what the folder says of the call that it is of; empty for a new one."""
        for part in self.folder.glob(PARTIAL):
            # of a process that was killed
            part.unlink(missing_ok=True)
        path = self.folder / _ABOUT
        if not path.exists():
            return {}
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            kind, number = about["kind"], int(about["format"])
            for name, take in self._known.items():
                take(about["run"]["settings"][name])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} cannot be read as the description of a call ({type(error).__name__}: "
                f"{error}). Give another path; what is in this one cannot be assigned to a model."
            ) from error
        if (kind, number) != (self.kind, self.format):
            raise DataError(
                f"{path} is of kind {kind!r} and format {number}; this version reads "
                f"{self.kind!r}, format {self.format}. Call again with the version that started "
                "it, or give another path."
            )
        return dict(about)

    def _describe(self, run: Mapping[str, Any]) -> None:
        about = {"kind": self.kind, "format": self.format, "run": run}
        text = json.dumps(about, indent=1)
        try:
            write_whole(
                self.folder / _ABOUT, lambda path: path.write_text(text, encoding="utf-8"),
                overwrite=True,
            )  # fmt: skip
        except OSError as error:
            raise _unwritable(self.folder, error) from error

    @property
    def seed(self) -> Any:
        """Seed that the folder was begun with; None for a new one."""
        return self._about["run"]["settings"]["random_seed"] if self._about else None

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.close()


class Store(Folder):
    """A folder for one run; ``random_seed`` is that of the run: as given, as stored, or drawn."""

    kind, format = "pymc_tempering resume", FORMAT
    _known: ClassVar = {"random_seed": repr, "draws": int}

    def __init__(self, path: Any, random_seed: Any) -> None:
        super().__init__(path)
        self._chains = [p for p in self.folder.glob(f"{_CHAIN}*") if n_kept(p)]
        if random_seed is None:
            # one that was given as a generator is stored as a digest, which gives no draws
            reproducible = self.seed is not None and not isinstance(self.seed, str)
            random_seed = self.seed if reproducible else np.random.SeedSequence().entropy
        self.random_seed = random_seed

    def _opened(self) -> dict[str, Any]:
        about = super()._opened()
        for file in self.folder.rglob("*.npz"):
            refuse_objects(file)
        return about

    def attach(self, step: Any, run: dict[str, Any]) -> None:
        """Have a step keep its chains here, if what is here already is of the same run.

        ``run`` is from :func:`pymc_tempering.checkpoint.description.describe`; where it differs, a
        DataError says in what.
        It may have another number of draws: chains are then made longer, or read in part.
        """
        kept, settings = self._about["run"] if self._about else {}, run["settings"]
        n_draws = kept["settings"]["draws"] if self._chains else settings["draws"]
        # of fits and of what a chain has drawn, nothing depends on how much is still to come
        same = run | {"settings": settings | {"draws": kept["settings"]["draws"]}} if kept else run
        found = differences(kept, same)
        if found and self._chains:
            raise DataError(
                f"The run in {self.folder} is another one: {'; '.join(found)}. Call as when it was "
                "started, or give another path for a new run."
            )
        if found:
            (self.folder / _FITS).unlink(missing_ok=True)
            remove_evaluations(self.folder)
        if not self._chains:
            self._describe(run)
        step.kept = Kept(self.folder, n_draws)

    def check_densities(self, step: Any) -> None:
        """Refuse another model by its log density at all draws that are here."""
        n_all = n_other = 0
        for folder in self._chains:
            for draws, statistics in stored_draws(folder):
                recorded = statistics["model_logp"]
                points = [
                    {name: values[row] for name, values in draws.items()}
                    for row in range(len(recorded))
                ]
                now = np.array([step.log_density_of(point) for point in points])
                n_all += len(points)
                n_other += int(differing(recorded, now, step.sizes_at(points)).sum())
        if n_other:
            raise DataError(
                f"The run in {self.folder} is of another model: its log density is another one at "
                f"{n_other} of the {n_all} draws that are there. Call as when it was started, or "
                "give another path for a new run."
            )

    def progress(self, chains: int, total: int, *, rounds: bool) -> str:
        """Say what is there of a run; empty for a new one."""
        if not self._chains:
            searched = n_evaluated(self.folder)
            if (self.folder / _FITS).exists():
                return f"{self.folder} has the fits of this run; it goes on from them."
            if searched:
                return (
                    f"{self.folder} has {searched:,} gradients of the search of this run; it goes "
                    "on from them."
                )
            return ""
        counts = [n_kept(path) for path in self._chains]
        if not rounds and sum(count >= total for count in counts) >= chains:
            if max(counts) > total:
                return f"{self.folder} has more draws of this run; the first of them are returned."
            return f"{self.folder} has this run whole; nothing is sampled."
        return (
            f"{self.folder} has {sum(counts)} draws of this run, tuning included, in "
            f"{len(counts)} chains; it goes on from them."
        )


@contextmanager
def resumed(path: Any, method: Method, random_seed: Any) -> Iterator[tuple[Store | None, Any]]:
    """Open the store of a run, and give it with the seed of the run; None without a path."""
    if path is None:
        yield None, random_seed
        return
    if method.step is None:
        raise OptionError(
            f"`resume` is not available for {method.name}, whose chains are sampled by NUTS in a "
            "tempered model and not by a step of this package. Use method='gibbs_ct', or leave "
            "`resume` away."
        )
    store = Store(path, random_seed)
    try:
        yield store, store.random_seed
    finally:
        store.close()


def check_folder(path: Any) -> Path:
    """Make the folder of a run, or find it; OptionError where it is of anything else."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise OptionError(f"`resume` is {path!r}; expected the path of a folder for this run.")
    given = Path(path)
    try:
        folder = given.resolve()
        if folder.exists() and not folder.is_dir():
            raise OptionError(
                f"`resume` is {given}, which is a file; expected a folder, or a name that is free."
            )
        folder.mkdir(parents=True, exist_ok=True)
        foreign = not (folder / _ABOUT).exists() and any(
            entry.name != _LOCK and not entry.name.startswith(".") for entry in folder.iterdir()
        )
        if foreign:
            raise OptionError(
                f"`resume` is {given}, a folder with other things in it; expected one that an "
                "earlier call with `resume` made, an empty one, or a name that is free."
            )
        write_whole(folder / "probe.npz", probe, publish=False)
    except OptionError:
        raise
    except (OSError, RuntimeError) as error:
        raise _unwritable(given, error) from error
    except ValueError as error:
        raise OptionError(f"`resume` is {str(path)!r}, which is no path: {error}") from error
    return folder


def _unwritable(folder: Path, error: Exception) -> OptionError:
    return OptionError(f"`resume` is {folder}, which cannot be written: {error}")
