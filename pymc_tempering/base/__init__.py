"""Base densities: the beta = 0 end of the path, and the fits that choose one."""
