"""What is computed: variables, gradients, optimizers, problems, laws of compute time. No clock."""
