"""Entry points of a driver: the launcher, `AdaptiveJob`, and unmanaged scripts."""
