"""What every layer is: calls, weights, configs, masks, dtype policies."""
