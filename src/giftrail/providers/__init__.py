"""Where codes come from."""
