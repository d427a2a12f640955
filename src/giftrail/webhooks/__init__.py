"""Where partners want to be called, and with what secret."""
