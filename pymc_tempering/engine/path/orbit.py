"""Copies of a place under a group that leaves a density as it is: the labels of a mixture.

Of K components without an order every place has K! copies of equal density. What is known of one is
known of all, so that one of them is searched for, fitted and counted, and a reference that has all
copies of its fits leaves nothing to mix between them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.transport import TransportMap
from pymc_tempering.types import FloatArray, IntArray


def extended(z: FloatArray, sums: FloatArray) -> FloatArray:
    """Append to ``z`` (..., D) the entries that the others sum to: (..., D + R)."""
    return np.concatenate([z, z @ sums.T], axis=-1) if len(sums) else z


@dataclass(frozen=True, eq=False)
class Orbit:
    """A group of maps of ``z`` (D,) of determinant one, the first of which is the identity.

    Shares of a whole have one coordinate less than there are shares, as the last one is minus the
    sum of the others. With these, ``sums @ z`` for `sums` (R, D), maps are permutations: `order`
    (G, D + R) says which entry comes where.

    Examples
    --------
    >>> two = Orbit(np.array([[0, 1, 2], [1, 0, 2]]), np.empty((0, 3)))
    >>> two.images(np.array([1.0, 2.0, 3.0])).tolist()
    [[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]]
    >>> two.nearest(np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, 0.0, 3.0]]))[0].tolist()
    [[2.0, 1.0, 3.0]]
    """

    order: IntArray
    sums: FloatArray

    @property
    def size(self) -> int:
        """Number of maps G."""
        return len(self.order)

    @cached_property
    def _rows(self) -> IntArray:
        return self.order[:, : self.sums.shape[1]]

    @cached_property
    def matrices(self) -> FloatArray:
        """The maps as matrices, shape (G, D, D)."""
        return np.asarray(self.images(np.eye(self.sums.shape[1])).transpose(0, 2, 1))

    def images(self, z: FloatArray) -> FloatArray:
        """Where the maps take places: (..., D) to (G, ..., D)."""
        return np.asarray(np.moveaxis(extended(z, self.sums)[..., self._rows], -2, 0))

    def moved(self, z: FloatArray, which: IntArray) -> FloatArray:
        """Take the image under the map of each number: (n, D) and (n,) to (n, D)."""
        return np.take_along_axis(extended(z, self.sums), self._rows[which], axis=1)

    def shuffled(self, z: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Take an image at random of each place, shape (n, D)."""
        return self.moved(z, rng.integers(self.size, size=len(z)))

    def nearest(
        self, z: FloatArray, places: FloatArray, base: GaussianBase | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Take the image of each ``z`` (n, D) nearest to any place (m, D), and by which map.

        Distances are those in the coordinates of a Gaussian, where one is given.
        """
        images, at = self.images(z), places
        if base is not None:
            images, at = base.to_base(images), base.to_base(places)
        squares = (images**2).sum(axis=-1)[..., None] + (at**2).sum(axis=-1)
        which = (squares - 2.0 * images @ at.T).min(axis=-1).argmin(axis=0)
        return self.moved(z, which), which

    def of_gaussian(self, fit: GaussianBase) -> list[GaussianBase]:
        """Images of a Gaussian, all with its guess of the log normaliser."""
        images = map(GaussianBase.from_root, self.images(fit.mean), self.matrices @ fit.matrix)
        return [GaussianBase(image.mean, image.scale, fit.log_zeta) for image in images]

    def of_fit(self, fit: GaussianBase | TransportMap) -> Sequence[GaussianBase | TransportMap]:
        """Images of a fit, the same for a transport map."""
        if isinstance(fit, GaussianBase):
            return self.of_gaussian(fit)
        roots = fit.root @ np.linalg.inv(self.matrices)
        return [
            TransportMap(mean, root, fit.terms, fit.log_zeta)
            for mean, root in zip(self.images(fit.mean), roots, strict=True)
        ]
