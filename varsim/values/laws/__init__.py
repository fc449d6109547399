"""Laws of compute times; `varsim.values.law` has their table."""
