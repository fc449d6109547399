"""What every room stands on: units, models, registry, random streams, distributions, presets."""
