"""What all ensembles have: a path, replicas on it, and one of them at the target."""

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.replicas import Replicas, new_replicas
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.state import Stateful
from pymc_tempering.engine.tally import counts_by_name
from pymc_tempering.types import FloatArray, IntArray


class Ensemble(Stateful):
    """Replicas on a path; what couples them is the subclass's."""

    # evaluations of the density beside those of scans, as where replicas are put somewhere
    n_off_record = 0
    path: TemperedPath
    replicas: Replicas
    betas: FloatArray

    def _counted(self, counts: IntArray, *, needs_gradient: bool = True) -> dict[str, int]:
        """Counts by name, and evaluations without a finite density; in gradients of the model."""
        made = counts_by_name(counts, self.path.view.faults, needs_gradient=needs_gradient)
        of_model = "n_gradients", "n_bad_gradients", "n_infinite_density", "n_nan_density"
        return made | {name: self.path.n_each * made[name] for name in of_model}

    @property
    def coordinates(self) -> Coordinates:
        """In which the replicas move."""
        return self.path.coordinates

    @coordinates.setter
    def coordinates(self, coordinates: Coordinates) -> None:
        self.path = self.path.moved(coordinates)

    @property
    def mixture(self) -> Mixture | None:
        """Reference of the path, where it is a mixture."""
        return self.path.mixture

    @mixture.setter
    def mixture(self, mixture: Mixture | None) -> None:
        if mixture is not None or self.mixture is not None:
            self.path = self.path.starting_from(mixture)

    @property
    def n_levels(self) -> int:
        """Number of levels, reference and target included."""
        return int(self.betas.size)

    @property
    def base(self) -> GaussianBase:
        """Gaussian of the coordinates."""
        return self.path.base

    @property
    def u(self) -> FloatArray:
        """Positions of the replicas in :attr:`coordinates`, shape (n_replicas, D)."""
        return self.replicas.u

    @u.setter
    def u(self, u: FloatArray) -> None:
        self.replicas = new_replicas(self.path.view, u)
        self.n_off_record += len(u)

    @property
    def _target_row(self) -> int:
        """Replica at beta = 1."""
        raise NotImplementedError

    @property
    def target_position(self) -> FloatArray:
        """Position ``z`` of the replica at beta = 1, shape (D,)."""
        return self.coordinates.from_base(self.u[self._target_row])

    @property
    def target_log_density(self) -> float:
        """Log target density of :attr:`target_position`, in nats."""
        return float(self.replicas.log_target[self._target_row] - self.base.log_det_scale)
