"""From a YAML file to a scenario, with every complaint at its line and column."""
