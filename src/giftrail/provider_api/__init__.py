"""The door for providers: what they tell us by webhook."""
