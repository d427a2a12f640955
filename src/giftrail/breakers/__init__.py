"""Whether a provider is well enough to be asked for a brand."""
