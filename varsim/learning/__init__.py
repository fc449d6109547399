"""What is computed: problems, gradients, optimizers, staleness policies, workload; no clock."""
