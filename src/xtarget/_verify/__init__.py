"""Are results right: comparison with a reference in float64, on a device, for many calls."""
