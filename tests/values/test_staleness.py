"""What staleness policies make of gradients of a few rows; recorded cases hold whole ones."""

import numpy as np

from varsim.learning.gradient_form import IndexedSlices
from varsim.learning.staleness import DelayCompensated, InverseStaleness


def test_of_a_sparse_gradient_only_its_rows_change() -> None:
    now, read = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [1.0], [1.0]])
    sparse = IndexedSlices(np.array([2, 0, 2]), np.array([[1.0], [4.0], [2.0]]))
    policy = DelayCompensated(variance_control=0.5)
    found = policy.adjusted(sparse, 1, now, read)
    assert isinstance(found, IndexedSlices)
    # Row 2: 1 + 2 = 3, and 3 + 0.5 x 9 x (3 - 1) = 12; row 0 was not updated.
    assert (found.indices.tolist(), found.values.tolist()) == ([0, 2], [[4.0], [12.0]])
    halved = InverseStaleness().adjusted(sparse, 2, now, read)
    assert isinstance(halved, IndexedSlices)
    assert halved.dense((3, 1)).tolist() == [[2.0], [0.0], [1.5]]
