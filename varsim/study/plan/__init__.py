"""The inverse question: the least that a cluster may cost, or be, and still reach its targets."""
