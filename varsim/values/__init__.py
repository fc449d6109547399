"""Values: variables, gradients, optimizers, problems, distributions of compute times. No clock."""
