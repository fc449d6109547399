"""Algorithms of collectives as schedules, and what carries a schedule out over links."""
