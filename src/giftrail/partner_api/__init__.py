"""The partner's door: `/v1`, from HTTP to the rooms and back."""
