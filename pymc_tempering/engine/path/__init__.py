"""From a reference to a target: two densities, the coordinates they are seen in, and a point."""
