"""Path, explorer, ensemble: tempering on a compiled density; nothing here imports PyMC."""
