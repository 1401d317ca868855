"""Proof on the user's own machine that the prefix holds: the bytes that a provider was sent."""
