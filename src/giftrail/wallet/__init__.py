"""Money: one prepaid wallet a partner, double entry, never below zero."""
