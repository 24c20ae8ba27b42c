"""The way of a call, in reading order: run, call, binding, and what they stand on."""
