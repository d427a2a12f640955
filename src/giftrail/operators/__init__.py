"""Who works here, and the trail of what they did."""
