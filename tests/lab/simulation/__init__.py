"""Simulations around the real loop, in virtual time."""
