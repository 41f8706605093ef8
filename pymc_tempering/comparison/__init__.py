"""Several models: their table, averages, weights, Bayes factors, sensitivity to priors."""
