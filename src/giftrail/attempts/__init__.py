"""Events on their way to endpoints: fanned out, attempted, tried again."""
