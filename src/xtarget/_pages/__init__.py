"""Reports as one HTML file: no script, nothing from the network, readable on a phone and in
print."""
