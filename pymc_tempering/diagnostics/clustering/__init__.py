"""Which draws belong to which mode: pure functions of arrays."""
