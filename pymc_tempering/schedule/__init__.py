"""Schedules of inverse temperatures: numbers only, no densities and no samplers."""
