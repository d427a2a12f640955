"""What runs unasked."""
