"""How fast are kernels: times with their spread, beside other libraries and the device's limits."""
