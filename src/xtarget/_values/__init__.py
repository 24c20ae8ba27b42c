"""Values that every layer shares: dtypes, targets, requests, artifacts, errors, settings."""
