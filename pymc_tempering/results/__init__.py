"""Results as ArviZ data: one schema, one place that writes it."""
