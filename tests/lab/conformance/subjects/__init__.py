"""Conformance vectors by subject: each module applies its vectors to the scheduler."""
