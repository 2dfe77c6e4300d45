"""Arrays that many modules share, by name, and as plain Python reads them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def cells_of(array: Ints) -> dict[tuple[int, int], int]:
    """The cells of a two-dimensional array by (row, column).

    A kernel that runs as plain Python indexes them as it does the array, several times faster.
    """
    lines = enumerate(array.tolist())
    return {(i, j): cell for i, line in lines for j, cell in enumerate(line)}
