"""Results as data: metrics, comparisons, sweeps, searches; who words them is in `report`."""
