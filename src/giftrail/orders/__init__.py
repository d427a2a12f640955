"""Orders: placed once, paid once, found again by reference."""
